"""The testing kit, shipped in the wheel."""

from penstock.clock import ManualClock

__all__ = ["ManualClock"]
