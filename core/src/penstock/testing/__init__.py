"""The testing kit, shipped in the wheel."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock.runtime.clock import ManualClock

if TYPE_CHECKING:
    from penstock.testing.receiver_harness import ReceiverHarness
    from penstock.testing.stream_harness import StreamHarness

__all__ = ["ManualClock", "ReceiverHarness", "StreamHarness"]

# Imported when first used: each needs what the others do not.
_HOMES = {
    "ReceiverHarness": "penstock.testing.receiver_harness",
    "StreamHarness": "penstock.testing.stream_harness",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'penstock.testing' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
