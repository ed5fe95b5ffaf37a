"""A JVM that is asked to end: what is set in it, and what this process learns, with a JVM of the test's own."""

from __future__ import annotations

import signal
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark import SparkContext

from penstock.spark.stop_requests import StopRequests


class Latch:
    """Java's CountDownLatch of one."""

    def __init__(self, _count: int) -> None:
        self._event = threading.Event()

    def countDown(self) -> None:
        self._event.set()

    def __getattr__(self, name: str) -> Any:
        assert name == "await"
        return lambda: self._event.wait(10)


class Jvm:
    """What the hooks need of Java and of Hadoop."""

    def __init__(self) -> None:
        self.hooks: list[tuple[int, int, Any]] = []
        self.is_ending = False
        manager = SimpleNamespace(addShutdownHook=self._add, removeShutdownHook=self._remove)
        process = SimpleNamespace(onExit=lambda: SimpleNamespace(join=lambda: None))
        self.java = SimpleNamespace(
            lang=SimpleNamespace(
                Class=SimpleNamespace(forName=lambda name: name),
                ProcessHandle=SimpleNamespace(of=lambda _pid: SimpleNamespace(get=lambda: process)),
            ),
            util=SimpleNamespace(
                concurrent=SimpleNamespace(CountDownLatch=Latch, TimeUnit=SimpleNamespace(SECONDS="seconds"))
            ),
            beans=SimpleNamespace(
                EventHandler=SimpleNamespace(create=lambda _kind, target, method: getattr(target, method))
            ),
        )
        util = SimpleNamespace(ShutdownHookManager=SimpleNamespace(get=lambda: manager))
        self.org = SimpleNamespace(apache=SimpleNamespace(hadoop=SimpleNamespace(util=util)))

    def _add(self, hook: Any, priority: int, timeout: int, _unit: str) -> None:
        self.hooks.append((priority, timeout, hook))

    def _remove(self, hook: Any) -> None:
        if self.is_ending:
            raise RuntimeError("Shutdown in progress, cannot remove a shutdownHook")
        self.hooks = [each for each in self.hooks if each[2] != hook]

    def end(self) -> None:
        """Run the hooks."""
        self.is_ending = True
        for _priority, _timeout, hook in sorted(self.hooks, key=lambda each: -each[0]):
            hook()


@pytest.fixture
def jvm() -> Jvm:
    return Jvm()


def context(jvm: Any) -> SparkContext:
    return cast(SparkContext, SimpleNamespace(_jvm=jvm))


def test_end_of_the_jvm_is_reported_before_it_waits_for_this_process(jvm: Jvm) -> None:
    reported = threading.Event()
    shutdown = StopRequests(lambda _number: reported.set())
    shutdown.install_hooks(context(jvm), 30)
    # Those of Spark have 40.
    assert [(priority > 40, timeout) for priority, timeout, _hook in jvm.hooks] == [(True, 5), (True, 35)]
    assert jvm.hooks[0][0] > jvm.hooks[1][0]
    jvm.end()
    assert reported.wait(10)
    shutdown.close()
    assert len(jvm.hooks) == 2


def test_closing_removes_the_hooks_and_reports_nothing(jvm: Jvm) -> None:
    reported = threading.Event()
    shutdown = StopRequests(lambda _number: reported.set())
    shutdown.install_hooks(context(jvm), 30)
    shutdown.close()
    shutdown.close()
    assert jvm.hooks == []
    assert not reported.is_set()


class BrokenLatch(Latch):
    """A latch of a JVM that is gone."""

    def __getattr__(self, name: str) -> Any:
        raise ConnectionResetError


def test_jvm_that_was_killed_is_no_request_to_stop(jvm: Jvm) -> None:
    reported = threading.Event()
    shutdown = StopRequests(lambda _number: reported.set())
    jvm.java.util.concurrent.CountDownLatch = BrokenLatch
    shutdown.install_hooks(context(jvm), 30)
    # Runs on its own thread, whose failure would be invisible here.
    shutdown._await_shutdown()
    assert not reported.is_set()


@pytest.mark.parametrize("own_first", [True, False])
def test_signal_to_both_is_reported_once_and_a_second_one_again(own_first: bool) -> None:
    # Without a JVM, and without a signal to the process of the tests, whose receivers have no fixed order.
    reported: list[int] = []
    requests = StopRequests(reported.append)
    receivers = ("process", "jvm") if own_first else ("jvm", "process")
    requests._receive(signal.SIGTERM, *receivers)
    requests._receive(signal.SIGTERM, *reversed(receivers))
    assert reported == [signal.SIGTERM]
    requests._receive(signal.SIGINT, "process", "jvm")
    assert reported == [signal.SIGTERM, signal.SIGINT]


def test_java_without_the_classes_is_tolerated() -> None:
    shutdown = StopRequests(lambda _number: None)
    shutdown.install_hooks(context(SimpleNamespace()), 30)
    shutdown.close()
