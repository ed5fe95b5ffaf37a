"""The testing kit, shipped in the wheel."""

from typing import TYPE_CHECKING, Any

from penstock.clock import ManualClock

if TYPE_CHECKING:
    from penstock.testing.stream_harness import StreamHarness

__all__ = ["ManualClock", "StreamHarness"]


def __getattr__(name: str) -> Any:
    # It needs Spark, which the rest of the kit does not.
    if name == "StreamHarness":
        from penstock.testing.stream_harness import StreamHarness

        return StreamHarness
    raise AttributeError(f"module 'penstock.testing' has no attribute {name!r}")
