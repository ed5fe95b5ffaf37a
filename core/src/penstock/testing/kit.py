"""``Kit``: what a running check gets: instances of the plugin, a clock, seeded randomness, deadlines, a leak meter."""

from __future__ import annotations

import importlib.metadata
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, ClassVar

from pyspark import cloudpickle

from penstock.hookspecs import GROUP
from penstock.plugins.discovery import KINDS, LoadedPlugin, Plugins
from penstock.plugins.specs import Spec
from penstock.receive.receiver import Receiver
from penstock.runtime.clock import Clock
from penstock.testing.capabilities import Capabilities
from penstock.testing.check import Check, NotApplicable, fail
from penstock.testing.feeder import Feeder
from penstock.testing.leak_meter import LeakMeter
from penstock.testing.plugin_probe import Facts, installed, probe
from penstock.testing.receiver_harness import ReceiverHarness
from penstock.testing.subject import HOOKS, Subject

_POLL_S = 0.002
_PROBE_LIMIT_S = 10.0


def scale() -> float:
    """The factor of every deadline, from ``PENSTOCK_TEST_SCALE``: above 1 on a slow machine.

    Raises:
        ValueError: it is no number above 0.
    """
    text = os.environ.get("PENSTOCK_TEST_SCALE", "1")
    try:
        value = float(text)
    except ValueError:
        value = 0
    if value <= 0:
        raise ValueError(f"PENSTOCK_TEST_SCALE={text!r}: must be a number above 0, a factor for all deadlines")
    return value


class Kit:
    """What a check runs with. Everything that is entered here is closed when the check ends.

    Args:
        subject: what is tested.
        check: the running check.
        folder: an empty folder for this check.
    """

    def __init__(self, subject: Subject, check: Check, folder: Path) -> None:
        self.subject, self.check, self.folder = subject, check, folder
        #: Seeded by the run's seed and the check's id: a check sees the same values alone and among others.
        self.rng = random.Random(f"{subject.seed} {check.id}")
        self.leak_meter = LeakMeter()
        self._entered = ExitStack()

    @property
    def capabilities(self) -> Capabilities:
        """What the plugin declares."""
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

    def deadline_s(self, seconds: float) -> float:
        """A deadline, multiplied by ``PENSTOCK_TEST_SCALE``."""
        return seconds * scale()

    def until(self, condition: Callable[[], object], seen: Callable[[], str] | str, timeout_s: float = 5.0) -> None:
        """Wait until a condition is true.

        Args:
            condition: polled every 2 ms.
            seen: what the failure reports, or a function that describes it.
            timeout_s: deadline before scaling.

        Raises:
            CheckFailure: it is not true in time.
        """
        if not self.becomes(condition, timeout_s):
            fail(f"{seen if isinstance(seen, str) else seen()} (within {self.deadline_s(timeout_s):g} s)")

    def finishes(self, function: Callable[[], object], timeout_s: float) -> bool:
        """Call a function on a thread of its own; return whether it returns or raises before a deadline."""

        def body() -> None:
            # What it raises is not the question.
            with suppress(BaseException):
                function()

        thread = threading.Thread(target=body, name=f"penstock kit {self.check.id} call", daemon=True)
        thread.start()
        thread.join(self.deadline_s(timeout_s))
        return not thread.is_alive()

    def becomes(self, condition: Callable[[], object], timeout_s: float = 5.0) -> bool:
        """Wait until a condition is true, up to a deadline; return whether it is."""
        deadline = time.monotonic() + self.deadline_s(timeout_s)
        while not condition():
            if time.monotonic() > deadline:
                return bool(condition())
            # Polls: what a third-party plugin does has no event to wait for.
            threading.Event().wait(_POLL_S)
        return True


class ReceiverKit(Kit):
    """The kit of the receiver checks."""

    def feeder(self) -> Feeder:
        """A new feeder, closed when the check ends.

        Raises:
            NotApplicable: the suite has none.
        """
        if self.subject.feeder is None:
            raise NotApplicable("the suite has no feeder")
        feeder: Feeder = self.enter(self.subject.feeder())
        return feeder

    def make(self, feeder: Feeder | None = None) -> Receiver[Any]:
        """A new receiver: pickled and loaded again, as Spark does on the way to an executor.

        Args:
            feeder: its source; ``None`` for a new one.

        Raises:
            CheckFailure: it cannot be pickled, or loaded.
        """
        if feeder is None and self.subject.feeder is not None:
            feeder = self.feeder()
        made = self.subject.instance(*([] if feeder is None else [feeder]))
        try:
            receiver = cloudpickle.loads(cloudpickle.dumps(made))
        except Exception as error:
            fail(
                f"a new {type(made).__name__} cannot be pickled: {type(error).__name__}: {error}",
                change="create clients, sockets, locks and threads in onStart, not in __init__",
            )
        if not isinstance(receiver, Receiver):
            fail(f"make returned a {type(receiver).__name__}", change="return an instance of a subclass of Receiver")
        return receiver

    def run(
        self,
        receiver: Receiver[Any],
        clock: Clock | None = None,
        conf: Mapping[str, str] | None = None,
    ) -> ReceiverHarness:
        """Start a receiver in a harness, which stops it when the check ends."""
        harness: ReceiverHarness = self.enter(ReceiverHarness(receiver, {**self.subject.conf, **(conf or {})}, clock))
        return harness


class RateEstimatorKit(Kit):
    """The kit of the rate estimator checks."""

    def make(self, batch_interval_ms: int = 1000) -> Any:
        """A new estimator."""
        return self.subject.instance(batch_interval_ms)


class PackagingKit(Kit):
    """The kit of the packaging checks."""

    _known: ClassVar[dict[Any, Facts]] = {}

    def facts_of(self, plugin: LoadedPlugin, *, again: bool = False) -> Facts:
        """What loading a plugin does; remembered for this process unless asked ``again``."""
        key = (plugin.name, plugin.value, plugin.distribution, tuple(sys.path))
        if again or key not in self._known:
            self._known[key] = probe(plugin, self.deadline_s(_PROBE_LIMIT_S))
        return self._known[key]

    def plugin(self) -> LoadedPlugin | None:
        """The installed plugin that is tested, not loaded; ``None`` when no installed plugin has or offers the name.

        Raises:
            NotApplicable: the suite names none.
        """
        name = self.subject.name
        if not name:
            raise NotApplicable("the suite names no installed plugin: set name")
        found = sorted(installed(), key=lambda each: each.name != name)
        hook = HOOKS.get(self.subject.kind)
        if hook is not None:
            offer = (KINDS[hook][0], name)
            if offering := next((each for each in found if offer in self.facts_of(each).offers), None):
                return offering
        return next((each for each in found if each.name == name), None)

    def facts(self, *, again: bool = False) -> Facts:
        """What loading the plugin does.

        Raises:
            NotApplicable: the suite names no plugin, or one that is not installed.
        """
        plugin = self.plugin()
        if plugin is None:
            raise NotApplicable(f"no installed plugin has or offers the name {self.subject.name!r}")
        return self.facts_of(plugin, again=again)

    def loaded(self) -> Plugins:
        """The plugin, loaded in this process beside no other.

        Raises:
            NotApplicable: it does not load.
        """
        plugin, facts = self.plugin(), self.facts()
        if plugin is None or facts.step:
            raise NotApplicable(f"the plugin {facts.name} does not load: {facts.fault}")
        candidates = importlib.metadata.entry_points(group=GROUP, name=plugin.name)
        return Plugins(entry_points=[each for each in candidates if LoadedPlugin.of(each) == plugin][:1])

    def specs(self) -> list[tuple[str, Spec]]:
        """What is offered under the subject's name, or else by the whole plugin: kind and spec of each.

        Raises:
            NotApplicable: the plugin does not load.
        """
        loaded = self.loaded()
        hook = HOOKS.get(self.subject.kind)
        if hook is not None:
            return [(KINDS[hook][0], loaded.spec(hook, self.subject.name))]
        return [(kind, spec) for hook, (kind, _) in KINDS.items() for spec in loaded.specs(hook).values()]

    def of_kind(self) -> Any:
        """The kit of the subject's own kind, which makes instances.

        Raises:
            NotApplicable: the subject is a plugin as a whole.
        """
        if self.subject.kind == "plugin":
            raise NotApplicable("only the packaging is tested")
        return self.enter(closing(KITS[self.subject.kind](self.subject, self.check, self.folder)))


#: Kind of check → its kit.
KITS: Mapping[str, type[Kit]] = {
    "plugin": PackagingKit,
    "receiver": ReceiverKit,
    "rate-estimator": RateEstimatorKit,
    "listener": Kit,
    "block-store": Kit,
    "live": Kit,
}
