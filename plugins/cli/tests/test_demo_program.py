"""``quiet_spark`` with a fake Spark: where the JVM's output goes, and what Ctrl-C does."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from penstock_cli import demo_program as module
from penstock_cli.demo_program import SparkNotStartedError, quiet_spark


class FakeSpark:
    """Runs a callback while it starts."""

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
        fake = FakeSpark(while_starting)
        monkeypatch.setattr(module, "SparkContext", fake)
        return fake

    return fake


def test_jvm_output_is_hidden(spark: Callable[..., FakeSpark], capfd: pytest.CaptureFixture[str]) -> None:
    fake = spark()
    started: object = quiet_spark({"spark.x": "1"})
    assert started is fake
    os.write(2, b"our own\n")
    assert capfd.readouterr().err == "our own\n"


def test_jvm_output_is_shown_when_verbose(spark: Callable[..., FakeSpark], capfd: pytest.CaptureFixture[str]) -> None:
    spark()
    quiet_spark({}, verbose=True)
    assert capfd.readouterr().err == "a warning of the JVM\n"


def test_last_jvm_output_is_shown_when_spark_does_not_start(
    spark: Callable[..., FakeSpark], capfd: pytest.CaptureFixture[str]
) -> None:
    spark(fail)
    with pytest.raises(
        SparkNotStartedError, match=r"^Spark did not start: RuntimeError: no port; see: penstock doctor$"
    ):
        quiet_spark({})
    assert capfd.readouterr().err == "a warning of the JVM\n"


def test_ctrl_c_is_delayed_until_spark_has_started(spark: Callable[..., FakeSpark]) -> None:
    fake = spark(press_ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        quiet_spark({})
    assert fake.stopped


def test_second_ctrl_c_is_not_delayed(spark: Callable[..., FakeSpark]) -> None:
    fake = spark(press_ctrl_c_twice)
    with pytest.raises(KeyboardInterrupt):
        quiet_spark({})
    assert not fake.stopped


def test_ctrl_c_after_the_start_is_a_keyboard_interrupt(spark: Callable[..., FakeSpark]) -> None:
    spark()
    quiet_spark({})
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
