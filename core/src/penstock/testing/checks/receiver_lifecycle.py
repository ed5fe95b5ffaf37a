"""Receiver checks RC-01 to RC-09: how a receiver starts, stops and restarts."""

from __future__ import annotations

from penstock.testing.check import check, fail
from penstock.testing.kit import ReceiverKit


@check("RC-06", "must", change="close the socket or set the event that the read waits for in onStop")
def stop_wakes_a_blocked_read(kit: ReceiverKit) -> None:
    """A stop wakes a read that waits for data.

    Purpose: a receiver that ignores a stop keeps its executor slot and blocks a graceful stop.
    Method: start it on a source without data, then stop it.
    Condition: its threads end within 3 s.
    Requires: nothing.
    """
    harness = kit.run(kit.make())
    if not kit.finishes(harness.stop, 3):
        fail("the receiver has not ended 3 s after its stop", "a source without data")


@check("RC-08", "must", change="close in onStop, or when receive() returns, everything that was opened")
def nothing_left_behind(kit: ReceiverKit) -> None:
    """A stopped receiver leaves no thread, descriptor or temporary file behind.

    Purpose: a receiver restarts many times in the life of an executor; what it leaves adds up.
    Method: start it, store a record when there is a feeder, stop it, compare with the state before.
    Condition: threads, descriptors and temporary files are as before the start.
    Requires: nothing.
    """
    harness = kit.run(kit.make())
    harness.stop()
    kit.close()
    if leaks := kit.leak_meter.leaks(kit.deadline_s(3)):
        fail("; ".join(leaks), "one start and one stop")
