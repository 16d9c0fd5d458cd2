"""The outside world's formats, one a file."""
