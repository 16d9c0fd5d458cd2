"""The errors a user can cause. Each message names the cause and what to do about it."""


class ErgodicError(ValueError):
    """Base class: the command line prints these as one line and exits with a non-zero code."""


class TargetError(ErgodicError):
    """The log-density, or the ``like`` it was declared with, cannot be sampled from."""


class ConfigError(ErgodicError):
    """A method, or a call to ``sample``, was given a setting that makes no sense."""


class StorageError(ErgodicError):
    """A file could not be read as what it should be."""


class ModelError(ErgodicError):
    """A name or ``file.py:object`` on the command line does not lead to a model."""
