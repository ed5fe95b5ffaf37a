"""``process_state``: a snapshot of everything that a plugin under test must not change in the process."""

from __future__ import annotations

import locale
import os
import re
import warnings
from functools import partial
from pathlib import Path
from typing import Any

from penstock.spi import GlobalState


def process_state() -> GlobalState:
    """Take a snapshot: what the core restores after it has loaded a plugin, and umask, locale and warnings filters."""
    set_locale = partial(locale.setlocale, locale.LC_ALL)
    return GlobalState(
        {
            "the umask": (_umask, lambda digits: os.umask(int(digits, 8)) if digits else None),
            "the locale": (set_locale, set_locale),
            "the filters of all warnings": (_general_filters, _set_general_filters),
        }
    )


def changes(state: GlobalState) -> list[str]:
    """One line per change since the snapshot."""
    lines = []
    for name, (value, now) in state.changed().items():
        if name == "os.environ":  # its values may be secrets
            keys = {key for key, _ in value.items() ^ now.items()}
            lines.append(f"os.environ changed: {', '.join(sorted(keys))}")
        else:
            lines.append(f"{name} changed from {value!r} to {now!r}")
    return lines


def _umask() -> str:
    # Only /proc says it without changing it; empty elsewhere.
    status = Path("/proc/self/status")
    match = re.search(r"^Umask:\s*(\d+)", status.read_text() if status.exists() else "", re.MULTILINE)
    return match[1] if match else ""


def _general_filters() -> list[Any]:
    return [entry for entry in warnings.filters if _is_general(entry)]


def _is_general(warning_filter: Any) -> bool:
    """Whether a filter is for the warnings of every module: libraries add filters for their own ones."""
    _, message, category, module, _ = warning_filter
    return message is None and module is None and category.__module__ == "builtins"


def _set_general_filters(general: list[Any]) -> None:
    # The general ones come last: a library's own filters are for its own warnings.
    filters = [*(entry for entry in warnings.filters if not _is_general(entry)), *general]
    warnings.resetwarnings()
    warnings.filters[:] = filters  # type: ignore[index]  # a list, typed as a sequence
