"""``SteppedClock``: steps the wall clock of real processes, by a shared library that they preload."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

_SOURCE = Path(__file__).with_suffix(".c")


class SteppedClock:
    """The wall clock of the processes that run with ``environment``."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            pytest.skip("no C compiler: the wall clock of a process cannot be shifted")
        library = folder / "stepped_clock.so"
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, _SOURCE], check=True)
        self._offset = folder / "offset"
        self.set(0)
        preloaded = " ".join(filter(None, [str(library), os.environ.get("LD_PRELOAD")]))
        #: Environment variables of a process that has this clock.
        self.environment = {**os.environ, "LD_PRELOAD": preloaded, "STEPPED_CLOCK": str(self._offset)}

    def set(self, offset_s: int) -> None:
        """Set the clock to the real time plus an offset in seconds."""
        changed = self._offset.with_suffix(".new")
        changed.write_text(str(offset_s))
        changed.replace(self._offset)
