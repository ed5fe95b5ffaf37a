"""An executor with another version of a receiver's plugin, or without it, gets an error with a remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from penstock.listen.events import ReceiverError
from penstock.plugins.discovery import installed, origin_of
from penstock.receive.messages import Registered, RegisterReceiver
from penstock.track import receiver_launcher
from penstock.wire.client import Client
from penstock_socket.socket_receiver import SocketReceiver

if TYPE_CHECKING:
    from tests.track.conftest import Silent, Tracked

# As Spark reports it, shortened.
MISSING = """An error occurred while calling o55.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent \
failure: Lost task 0.3 in stage 0.0 (TID 3) (10.0.0.7 executor 2): org.apache.spark.api.python.PythonException: \
Traceback (most recent call last):
  File "serializers.py", line 192, in _read_with_length
pyspark.serializers.SerializationError: Caused by Traceback (most recent call last):
  File "serializers.py", line 580, in loads
    return cloudpickle.loads(obj, encoding=encoding)
ModuleNotFoundError: No module named '{}'

\tat org.apache.spark.api.python.BasePythonRunner
"""


@pytest.fixture
def tracked(make_tracker: Callable[..., Tracked], silent: type[Silent], monkeypatch: pytest.MonkeyPatch) -> Tracked:
    """A tracker whose receiver belongs to a plugin."""
    tracked = make_tracker([silent()])
    monkeypatch.setattr(receiver_launcher, "origin_of", lambda _kind, _plugins: "acme-gauge 2.0")
    tracked.tracker.start()
    tracked.launch()
    return tracked


def register(tracked: Tracked, plugin: str) -> Registered:
    task = tracked.launch().task
    driver = Client(task.driver.location, task.driver.token, 10_000)
    try:
        return driver.ask(RegisterReceiver(0, 1, "Silent", 1, host="10.0.0.7", plugin=plugin), Registered)
    finally:
        driver.close()


def test_receiver_of_another_version_is_refused_naming_both(tracked: Tracked) -> None:
    refused = register(tracked, "acme-gauge 1.9")
    assert not refused.accepted
    assert refused.reason.startswith(
        "host 10.0.0.7 runs acme-gauge 1.9 and the driver acme-gauge 2.0: install the same"
    )
    assert tracked.events.entries == []


@pytest.mark.parametrize("plugin", ["acme-gauge 2.0", ""])
def test_receiver_of_the_same_version_or_of_unknown_origin_is_accepted(tracked: Tracked, plugin: str) -> None:
    assert register(tracked, plugin).accepted


def test_executor_without_the_plugin_is_reported_with_plugin_host_and_remedy(tracked: Tracked) -> None:
    module = type(tracked.launch().task.receiver).__module__.partition(".")[0]
    tracked.launch().end(RuntimeError(MISSING.format(module)))
    tracked.settle()
    message = tracked.events.await_one(ReceiverError).receiverInfo.lastErrorMessage
    assert "the Python of executor 2 on 10.0.0.7 lacks acme-gauge 2.0: install it there" in message
    assert "--archives" in message


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            MISSING.format("paho.mqtt"),
            "the Python of executor 2 on 10.0.0.7 lacks the module 'paho.mqtt': install it there",
        ),
        ("disk full", "RuntimeError: disk full"),
    ],
)
def test_executor_without_another_module_is_reported_with_its_name(tracked: Tracked, error: str, reason: str) -> None:
    tracked.launch().end(RuntimeError(error))
    tracked.settle()
    assert reason in tracked.events.await_one(ReceiverError).receiverInfo.lastErrorMessage


def test_class_of_a_plugin_is_recognized_by_its_package() -> None:
    plugins = installed()
    version = next(each.version for each in plugins if each.name == "socket")
    assert origin_of(SocketReceiver, plugins) == f"penstock-socket {version}"
    assert origin_of(Client, plugins) == ""
