"""Named data sets for benchmarks: `load` returns arrays; strings come as record batches."""

from widemargin.datasets.folder import DATA_VARIABLE, DatasetMissing
from widemargin.datasets.named import Dataset, equal_frequency_ranks, load, names
from widemargin.datasets.strings import DEBIAN_SECTIONS, debian_paths_batches, splice_worm_batches

__all__ = [
    "DATA_VARIABLE",
    "DEBIAN_SECTIONS",
    "Dataset",
    "DatasetMissing",
    "debian_paths_batches",
    "equal_frequency_ranks",
    "load",
    "names",
    "splice_worm_batches",
]
