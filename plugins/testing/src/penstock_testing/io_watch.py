"""``IoWatch`` records the connections, processes and files that a thread opens."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any, Self

# Events of the interpreter's audit hooks.
_EVENTS = frozenset(
    {
        "os.fork",
        "os.mkdir",
        "os.posix_spawn",
        "os.remove",
        "os.rename",
        "os.system",
        "socket.bind",
        "socket.connect",
        "socket.getaddrinfo",
        "socket.gethostbyname",
        "socket.sendto",
        "subprocess.Popen",
    }
)
# Files that an import opens.
_CODE = (".py", ".pyc", ".so", ".pth")
_watching = threading.local()
_hook_lock = threading.Lock()
_hooked = False


class IoWatch:
    """Records the I/O of the thread that enters it, until it leaves.

    Attributes:
        seen: one line for each operation, with its arguments.
    """

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __enter__(self) -> Self:
        global _hooked
        with _hook_lock:
            if not _hooked:
                # An audit hook cannot be removed, so there is one for the whole process.
                sys.addaudithook(_audit)
                _hooked = True
        _watching.seen = self.seen
        return self

    def __exit__(self, *_error: object) -> None:
        _watching.seen = None


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in _EVENTS and event != "open":
        return
    seen: list[str] | None = getattr(_watching, "seen", None)
    if seen is None:
        return
    if event == "open":
        path = arguments[0]
        if isinstance(path, int) or _is_code(os.fsdecode(path)):
            return
    seen.append(
        f"{event}{tuple(argument for argument in arguments if isinstance(argument, str | bytes | int | tuple))}"
    )


def _is_code(path: str) -> bool:
    return ".pyc" in path or path.endswith(_CODE) or path.startswith((sys.prefix, sys.base_prefix, "/proc/"))
