"""Memory that is free on this machine."""

import re
from pathlib import Path


def free_bytes() -> int | None:
    """Return the bytes of memory that are free; None where the system does not say."""
    meminfo = Path("/proc/meminfo")
    found = meminfo.exists() and re.search(r"MemAvailable: +(\d+) kB", meminfo.read_text())
    return 1024 * int(found[1]) if found else None
