"""The machine and the library versions that benchmarks run on."""

import platform
from importlib.metadata import version
from pathlib import Path


def processor() -> str:
    """The name of the processor, as far as the system reports it."""
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def origin() -> dict[str, str]:
    """The library versions and the processor, which the bits of a result depend on."""
    libraries = {name: version(name) for name in ("torch", "numba", "numpy")}
    return {**libraries, "Python": platform.python_version(), "processor": processor()}
