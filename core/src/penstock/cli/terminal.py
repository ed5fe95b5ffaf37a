"""Where the command line writes: a terminal as wide as it is, or a file or pipe where no line is folded.

Owns the choice. Text is printed as it is: what looks like markup is somebody's data. Colours keep to ``NO_COLOR``.
"""

from __future__ import annotations

import sys

from rich.console import Console

_UNFOLDED = 1000


def is_live() -> bool:
    """Say whether what was printed can be drawn anew."""
    return sys.stdout.isatty() and Console().is_interactive


def terminal() -> Console:
    """Standard output."""
    return Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else _UNFOLDED)
