"""``Kit``, the argument of a check: makes instances of the plugin and has deadlines, seeded randomness, a leak meter.

``ReceiverKit`` adds what the checks of receivers need.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from penstock.blocks import arrow_form
from penstock.receive.receiver import Receiver
from penstock.runtime.clock import Clock, ManualClock
from penstock_testing.capabilities import Capabilities
from penstock_testing.check import Check, NotApplicable, fail, scale
from penstock_testing.feeder import Feeder
from penstock_testing.leak_meter import LeakMeter, ReceiverThreads
from penstock_testing.printed import Printed
from penstock_testing.receiver_harness import ReceiverHarness
from penstock_testing.subject import Subject

_POLL_S = 0.002
# How long the end of a check waits for the receiver's stop: a stop that hangs fails only the checks of stopping.
_CLOSE_S = 3.0
# A receiver is idle when its threads need less than a fifth of the time in several windows in a row.
_WINDOW_S, _QUIET_WINDOWS = 0.02, 3
# The check that fails if the receiver cannot be pickled.
_PICKLED_BY = "PK-12"


class Kit:
    """Serves one run of one check. It closes everything that was entered here when the check ends.

    Args:
        subject: the plugin under test.
        check: the running check.
        folder: an empty folder for this check.
        printed: sees what is printed during the check; ``None`` if nothing does.
    """

    def __init__(self, subject: Subject, check: Check, folder: Path, printed: Printed | None = None) -> None:
        self.subject, self.check, self.folder = subject, check, folder
        #: Seeded by the run's seed and the check's id: a check draws the same values alone and among others.
        self.rng = random.Random(f"{subject.seed} {check.id}")
        self._entered = ExitStack()
        self._printed = printed
        self.leak_meter = LeakMeter()

    @classmethod
    def prepare(cls, subject: Subject) -> None:
        """Do once in this process what only the first check would wait for: it counts against no time limit."""

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities that the plugin declares."""
        return self.subject.capabilities

    def enter(self, resource: Any) -> Any:
        """Enter a context manager until the check ends."""
        return self._entered.enter_context(resource)

    def on_close(self, function: Callable[[], object]) -> None:
        """Call a function when the check ends."""
        self._entered.callback(function)

    def close(self) -> None:
        """Close what was entered, the last first."""
        self._entered.close()

    def leaks(self, deadline_s: float) -> list[str]:
        """What the plugin has leaked since the check began, and its ``effects``, one line each."""
        return list(dict.fromkeys([*self.leak_meter.leaks(self.deadline_s(deadline_s)), *self.effects()]))

    def effects(self) -> list[str]:
        """The changes of the global state since the check began, and what was printed, one line each."""
        return [*self.leak_meter.changes(), *([] if self._printed is None else self._printed.lines())]

    def deadline_s(self, seconds: float) -> float:
        """A deadline, multiplied by ``PENSTOCK_TEST_SCALE``."""
        return seconds * scale()

    def until(self, condition: Callable[[], object], seen: Callable[[], str] | str, timeout_s: float = 5.0) -> None:
        """Wait until a condition is true.

        Args:
            condition: polled every 2 ms.
            seen: the text of the failure, or a function that returns it.
            timeout_s: the deadline in seconds, before scaling.

        Raises:
            CheckFailure: the condition is not true before the deadline.
        """
        if not self.becomes(condition, timeout_s):
            what = seen if isinstance(seen, str) else seen()
            fail(f"{what} (within {self.deadline_s(timeout_s):g} s; PENSTOCK_TEST_SCALE scales the deadline)")

    def finishes(self, function: Callable[[], object], timeout_s: float) -> bool:
        """Call a function on a thread of its own; return whether it returns or raises before a deadline."""

        def body() -> None:
            # The caller asks only whether it ends.
            with suppress(BaseException):
                function()

        thread = threading.Thread(target=body, name=f"penstock kit {self.check.id} call", daemon=True)
        thread.start()
        thread.join(self.deadline_s(timeout_s))
        return not thread.is_alive()

    def advance_until(
        self, clock: ManualClock, condition: Callable[[], object], step_ms: int = 10, limit_ms: int = 2000
    ) -> bool:
        """Move a manual clock in steps until a condition is true, up to a limit; return whether it is."""
        for _ in range(0, limit_ms, step_ms):
            if self.becomes(condition, 0.01):
                return True
            clock.advance(step_ms)
        return self.becomes(condition)

    def becomes(self, condition: Callable[[], object], timeout_s: float = 5.0) -> bool:
        """Wait until a condition is true, up to a deadline; return whether it is."""
        deadline = time.monotonic() + self.deadline_s(timeout_s)
        while not condition():
            if time.monotonic() > deadline:
                return bool(condition())
            # Polls: a third-party plugin sets no event that this could wait for.
            threading.Event().wait(_POLL_S)
        return True


class ReceiverKit(Kit):
    """The kit of the receiver checks."""

    @classmethod
    def prepare(cls, subject: Subject) -> None:
        """Import what the first block needs."""
        _encode_a_block()

    def feeder(self) -> Feeder:
        """A new feeder, closed when the check ends.

        Raises:
            NotApplicable: the suite has none.
        """
        if self.subject.feeder is None:
            raise NotApplicable("the suite has no feeder")
        feeder: Feeder = self.enter(self.subject.feeder())
        return feeder

    def make(
        self,
        feeder: Feeder | None = None,
        position: Mapping[str, Any] | None = None,
        *,
        index: int = 0,
        count: int = 1,
    ) -> Receiver[Any]:
        """A new receiver: pickled and loaded again, as Spark does on the way to an executor.

        Args:
            feeder: the source; ``None`` makes a new feeder.
            position: a replayable receiver continues there: the merged metadata of the blocks stored so far, in which a
                later block's values replace earlier ones. ``None``: from the start.
            index: the number of this instance among those that share the source's partitions, from 0.
            count: the number of these instances.

        Raises:
            CheckFailure: ``make`` does not take a position, or returns no receiver; in PK-12 also: it is not pickled.
            NotApplicable: the receiver cannot be pickled, which PK-12 reports.
        """
        if feeder is None and self.subject.feeder is not None:
            feeder = self.feeder()
        if position is not None and not self.subject.takes("position"):
            fail(
                "make has no argument position, and Capabilities.replayable is set",
                change="declare make(feeder, position=None), and return a receiver that continues at this position",
            )
        made = self.subject.instance(*([] if feeder is None else [feeder]), position=position, index=index, count=count)
        try:
            receiver = cloudpickle.loads(cloudpickle.dumps(made))
        except Exception as error:
            if self.check.id != _PICKLED_BY:
                raise NotApplicable(f"the receiver cannot be pickled: see {_PICKLED_BY}") from error
            fail(
                f"a new {type(made).__name__} cannot be pickled: {type(error).__name__}: {error}",
                change="create clients, sockets, locks and threads in onStart, not in __init__",
            )
        if not isinstance(receiver, Receiver):
            fail(f"make returned a {type(receiver).__name__}", change="return an instance of a subclass of Receiver")
        return receiver

    def harness(
        self,
        receiver: Receiver[Any],
        clock: Clock | None = None,
        conf: Mapping[str, str] | None = None,
    ) -> ReceiverHarness:
        """A harness for a receiver, not started. The kit stops it at the end of the check, even if that hangs."""
        harness = ReceiverHarness(receiver, {**self.subject.conf, **(conf or {})}, clock, pickled=False)
        self.on_close(lambda: self.finishes(harness.stop, _CLOSE_S))
        self.on_close(harness.accept)
        return harness

    def run(
        self,
        receiver: Receiver[Any],
        clock: Clock | None = None,
        conf: Mapping[str, str] | None = None,
    ) -> ReceiverHarness:
        """Start a receiver in a harness, which stops it when the check ends."""
        harness = self.harness(receiver, clock, conf)
        harness.start()
        return harness

    def start(
        self, clock: Clock | None = None, conf: Mapping[str, str] | None = None
    ) -> tuple[Feeder, ReceiverHarness]:
        """Make a feeder and a receiver that reads from it, and start it.

        Raises:
            NotApplicable: the suite has no feeder.
        """
        feeder = self.feeder()
        return feeder, self.run(self.make(feeder), clock, conf)

    def arrives(self, count: Callable[[], int], goal: int, timeout_s: float = 5.0) -> bool:
        """Wait until a count reaches a goal; return false once it has not changed for the timeout.

        Args:
            count: returns the current count, such as the number of stored records.
            goal: the count to wait for.
            timeout_s: seconds without a change, before scaling.
        """
        while (before := count()) < goal:
            if not self.becomes(lambda: count() != before, timeout_s):  # called at once
                return False
        return True

    def is_quiet(self, timeout_s: float = 3.0) -> bool:
        """Wait until the receiver's threads are idle; return whether they are before the deadline."""
        own = ReceiverThreads(self.leak_meter)
        deadline = time.monotonic() + self.deadline_s(timeout_s)
        quiet = 0
        while quiet < _QUIET_WINDOWS:
            if time.monotonic() > deadline:
                return False
            quiet = 0 if own.is_busy(_WINDOW_S) else quiet + 1
        return True

    def until_stored(self, harness: ReceiverHarness, records: Sequence[Any], timeout_s: float = 5.0) -> None:
        """Wait until these records are stored, each as often as it occurs among them. Others may be stored, too.

        Raises:
            CheckFailure: a record is not stored before the deadline.
        """

        def missing() -> list[Any]:
            return list((Counter(records) - Counter(harness.records)).elements())

        def seen() -> str:
            lacks = f"{len(missing())} of {len(records)} records are not stored, the first is {missing()[:1]}"
            return f"{lacks}; {harness.reports()}"

        self.until(lambda: harness.count >= len(records) and not missing(), seen, timeout_s)


@cache
def _encode_a_block() -> None:
    list(arrow_form.records(arrow_form.encode(["record"]).to_batches()))
