"""What a measurement ran on, in words that name neither the machine nor its folders."""

from __future__ import annotations

import datetime
import os
import platform
from importlib import metadata
from pathlib import Path

import widemargin
from benchmarks import peers

_PACKAGES = dict.fromkeys(("numpy", "scipy", "numba", *peers.DISTRIBUTIONS.values()))


def describe() -> dict:
    """The first record of a results file: processor, cores, memory, versions, day."""
    return {
        "kind": "machine",
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if _has_affinity() else os.cpu_count(),
        "memory_gib": _memory_gib(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {package: _version(package) for package in _PACKAGES},
        "day": datetime.date.today().isoformat(),
    }


def _has_affinity() -> bool:
    return hasattr(os, "sched_getaffinity")


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None


def _version(package: str) -> str | None:
    if package == "widemargin":
        # From the code itself: a checkout on the path may not be installed.
        return widemargin.__version__
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
