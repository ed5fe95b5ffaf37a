"""The start of Spark, with a fake one: where words go, and what Ctrl-C does."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from penstock.cli import quiet_spark as module
from penstock.cli.quiet_spark import SparkNotStartedError, quiet_spark


class FakeSpark:
    """Does something while it starts."""

    def __init__(self, while_starting: Callable[[], object]) -> None:
        self._while_starting = while_starting
        self.stopped = False

    def __call__(self, conf: object) -> FakeSpark:
        os.write(2, b"a warning of the JVM\n")
        self._while_starting()
        # PySpark's own handler: the demonstration is to be rid of it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return self

    def stop(self) -> None:
        self.stopped = True


def press_ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def press_ctrl_c_twice() -> None:
    press_ctrl_c()
    press_ctrl_c()


def fail() -> None:
    raise RuntimeError("no port\nat org.apache")


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeSpark]:
    def fake(while_starting: Callable[[], object] = lambda: None) -> FakeSpark:
        made = FakeSpark(while_starting)
        monkeypatch.setattr(module, "SparkContext", made)
        return made

    return fake


def test_what_the_jvm_says_is_not_heard(spark: Callable[..., FakeSpark], capfd: pytest.CaptureFixture[str]) -> None:
    made = spark()
    started: object = quiet_spark({"spark.x": "1"})
    assert started is made
    os.write(2, b"our own\n")
    assert capfd.readouterr().err == "our own\n"


def test_unless_it_is_asked_for(spark: Callable[..., FakeSpark], capfd: pytest.CaptureFixture[str]) -> None:
    spark()
    quiet_spark({}, heard=True)
    assert capfd.readouterr().err == "a warning of the JVM\n"


def test_or_spark_does_not_start(spark: Callable[..., FakeSpark], capfd: pytest.CaptureFixture[str]) -> None:
    spark(fail)
    with pytest.raises(SparkNotStartedError, match=r"^Spark did not start: RuntimeError: no port$"):
        quiet_spark({})
    assert capfd.readouterr().err == "a warning of the JVM\n"


def test_ctrl_c_waits_until_there_is_something_to_stop(spark: Callable[..., FakeSpark]) -> None:
    made = spark(press_ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        quiet_spark({})
    assert made.stopped


def test_ctrl_c_twice_does_not_wait(spark: Callable[..., FakeSpark]) -> None:
    made = spark(press_ctrl_c_twice)
    with pytest.raises(KeyboardInterrupt):
        quiet_spark({})
    assert not made.stopped


def test_ctrl_c_afterwards_is_pythons_own(spark: Callable[..., FakeSpark]) -> None:
    spark()
    quiet_spark({})
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
