"""What it is that benchmarks run on."""

import platform
from importlib.metadata import version
from pathlib import Path


def processor() -> str:
    """The processor's name, where the system tells it."""
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def origin() -> dict[str, str]:
    """What the bits of a result depend on, besides the package."""
    libraries = {name: version(name) for name in ("torch", "numba", "numpy")}
    return {**libraries, "Python": platform.python_version(), "processor": processor()}
