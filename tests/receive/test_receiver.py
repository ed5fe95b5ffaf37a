"""``Receiver``: the interface for authors."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from penstock import AsyncReceiver, Receiver
from penstock.errors import StreamingStateError
from penstock.receive.receiver_supervisor import ReceiverSupervisor

if TYPE_CHECKING:
    from tests.receive.conftest import Noting

Supervise = Callable[..., ReceiverSupervisor]


class Plain(Receiver[str]):
    def __init__(self, host: str) -> None:
        self.host = host

    def onStart(self) -> None:
        """Nothing to start."""


CALLS: dict[str, Callable[[Receiver[Any]], object]] = {
    "store": lambda receiver: receiver.store("a"),
    "store_all": lambda receiver: receiver.store_all(["a"]),
    "store_arrow": lambda receiver: receiver.store_arrow(None),
    "reportError": lambda receiver: receiver.reportError("e"),
    "restart": lambda receiver: receiver.restart("r"),
    "stop": lambda receiver: receiver.stop("s"),
    "streamId": lambda receiver: receiver.streamId,
    "rate_limit": lambda receiver: receiver.rate_limit,
    "block_interval_ms": lambda receiver: receiver.block_interval_ms,
}


@pytest.mark.parametrize("call", CALLS)
def test_call_before_the_receiver_runs_is_an_error(call: str) -> None:
    with pytest.raises(StreamingStateError, match=r"Plain is not running yet: .* from onStart on"):
        CALLS[call](Plain("h"))


@pytest.mark.parametrize("name", ["streamId", "rate_limit", "block_interval_ms", "application_id"])
def test_property_does_not_exist_before_the_receiver_runs(supervise: Supervise, name: str) -> None:
    receiver = Plain("h")
    assert not hasattr(receiver, name)
    supervise(receiver)
    assert hasattr(receiver, name)


def test_authors_attributes_collide_with_none_of_the_base_classes(supervise: Supervise) -> None:
    class Author(AsyncReceiver[str]):
        def __init__(self) -> None:
            self._supervisor = self._task = self._loop = self._thread = self._ended = self._run = "mine"

        async def receive(self) -> None:
            await self.astore("received")

    receiver = Author()
    before = dict(vars(receiver))
    supervisor = supervise(receiver)
    supervisor.start()
    supervisor.stop("enough")
    assert {name: getattr(receiver, name) for name in before} == before


def test_before_it_runs_it_is_neither_started_nor_stopped() -> None:
    assert (Plain("h").isStarted(), Plain("h").isStopped()) == (False, False)


def test_properties_of_a_running_receiver(supervise: Supervise) -> None:
    receiver = Plain("h")
    conf = {"spark.streaming.blockInterval": "50ms", "spark.streaming.receiver.maxRate": "5", "spark.app.id": "app-1"}
    supervise(receiver, conf).start()
    assert (receiver.streamId, receiver.application_id) == (3, "app-1")
    assert (receiver.block_interval_ms, receiver.rate_limit) == (50, 5)
    assert receiver.isStarted()


def test_a_receiver_has_one_supervisor(supervise: Supervise) -> None:
    receiver = Plain("h")
    supervise(receiver)
    with pytest.raises(StreamingStateError, match="this Plain runs already: each launch"):
        supervise(receiver)


def test_receiver_is_pickled_with_its_options() -> None:
    copy = pickle.loads(pickle.dumps(Plain("there")))
    assert (type(copy), copy.host) == (Plain, "there")


def test_receiver_has_no_preferences_by_default() -> None:
    receiver = Plain("h")
    assert receiver.preferredLocation() is None
    assert receiver.storageLevel is None
    receiver.on_rate_change(5)
    receiver.onStop()


def test_onStart_must_be_written(supervise: Supervise) -> None:
    class Forgot(Receiver[str]):
        pass

    supervisor = supervise(Forgot())
    supervisor.start()
    with pytest.raises(TypeError, match="Forgot must override onStart"):
        supervisor.await_termination()


def test_calls_of_the_author_reach_the_supervisor(supervise: Supervise, receiver: Noting) -> None:
    # Spark's ReceiverSuite: the same objects arrive, each once.
    supervisor, calls = supervise(receiver), list[tuple[Any, ...]]()

    class Spy:
        def __getattr__(self, name: str) -> Callable[..., None]:
            return lambda *args: calls.append((name, *args))

    record, many, metadata, error = object(), [object()], {"a": 1}, ValueError("e")
    vars(receiver)["_Receiver__supervisor"] = Spy()
    receiver.store(record)
    receiver.store_all(many, metadata)
    receiver.reportError("message", error)
    receiver.restart("message", error, 5)
    receiver.stop("message", error)
    vars(receiver)["_Receiver__supervisor"] = supervisor
    assert calls == [
        ("store", record, None),
        ("store_all", many, metadata),
        ("report_error", "message", error),
        ("restart", "message", error, 5),
        ("stop_soon", "message", error),
    ]
    assert calls[0][1] is record
    assert calls[1][1] is many
