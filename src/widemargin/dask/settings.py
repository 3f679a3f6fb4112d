"""The tuned numbers of training on a cluster: `settings` of its estimators."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ClusterSettings:
    """How many problems share rounds, and how long to wait for workers."""

    #: at most this many problems share rounds: workers store a few numbers per row for each
    most_together: int = 16
    #: fewer do if their planes, and the points at which these touch, would fill the driver's
    #: memory: at most so many bytes, for as many planes as most problems need
    plane_bytes: int = 4 << 30
    planes: int = 128
    #: whether the planes of one C are used at the next
    keeps_planes: bool = True
    #: how long to wait for a worker if there is none, unless there is a time limit
    seconds_without_workers: float = 300.0
