"""``SteppedClock``: steps the wall clock of real processes, by a shared library that they preload."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).with_suffix(".c")


def compiler() -> str | None:
    """The C compiler of this machine, if there is one."""
    return shutil.which("cc") or shutil.which("gcc")


class SteppedClock:
    """The wall clock of the processes that run with ``environment``; needs a C compiler."""

    def __init__(self, folder: Path) -> None:
        library = folder / "stepped_clock.so"
        subprocess.run([compiler() or "cc", "-shared", "-fPIC", "-O1", "-o", library, _SOURCE, "-ldl"], check=True)
        self._file = (folder / "offset").open("wb", buffering=0)
        #: The difference to the real time, seconds.
        self.offset_s = 0
        self.set(0)
        preloaded = " ".join(filter(None, [str(library), os.environ.get("LD_PRELOAD")]))
        #: Environment variables of a process that has this clock.
        self.environment = {**os.environ, "LD_PRELOAD": preloaded, "STEPPED_CLOCK": self._file.name}

    def set(self, offset_s: int) -> None:
        """Set the clock to the real time plus an offset in seconds."""
        self.offset_s = offset_s
        # In one write: the processes have mapped the file.
        os.pwrite(self._file.fileno(), struct.pack("q", offset_s), 0)

    def step(self, by_s: int) -> None:
        """Set the clock forward, or back."""
        self.set(self.offset_s + by_s)

    def close(self) -> None:
        """Close the file; processes that have mapped it keep their clock."""
        self._file.close()
