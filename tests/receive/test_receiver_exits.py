"""Exits and stops from unusual places: ``sys.exit`` is reported, and nested stops do not deadlock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest

from penstock import AsyncReceiver, Receiver, ThreadReceiver
from penstock.receive import thread_receiver
from penstock.receive.messages import DeregisterReceiver, ReportError
from penstock.receive.receiver_supervisor import ReceiverSupervisor

if TYPE_CHECKING:
    from tests.helpers import EventLog
    from tests.receive.conftest import Noting

Supervise = Callable[..., ReceiverSupervisor]
Background = Callable[[Callable[[], Any]], "Future[Any]"]


class Leaving(ThreadReceiver[Any]):
    def receive(self) -> None:
        raise SystemExit("bad configuration")


class LeavingAsync(AsyncReceiver[Any]):
    async def receive(self) -> None:
        await asyncio.sleep(0)
        raise SystemExit("bad configuration")


@pytest.mark.parametrize("kind", [Leaving, LeavingAsync])
def test_sys_exit_in_receive_is_reported_as_an_error(
    supervise: Supervise, log: EventLog, kind: type[Receiver[Any]]
) -> None:
    supervise(kind()).start()
    log.await_count(ReportError)
    assert "bad configuration" in log.of(ReportError)[0].message


def test_exit_in_onStart_of_a_restart_ends_the_receiver_with_that_error(
    supervise: Supervise, receiver: Noting, background: Background
) -> None:
    def leave() -> None:
        raise SystemExit("leaving")

    supervisor = supervise(receiver)
    supervisor.start()
    receiver.on_start = leave
    receiver.restart("again", None, 0)
    with pytest.raises(BaseException, match="leaving"):
        background(supervisor.await_termination).result(timeout=30)


class Polite(ThreadReceiver[Any]):
    """Logs when it has ended."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    def receive(self) -> None:
        self._log.add("receive")
        self.wait(100)
        self.stop("done")


def test_stop_during_a_stop_does_not_deadlock(
    supervise: Supervise, log: EventLog, background: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_receiver, "_JOIN_S", 100.0)
    supervisor = supervise(Polite(log))
    supervisor.start()
    log.await_count("receive")
    background(lambda: supervisor.stop("enough")).result(timeout=30)


def test_stop_during_a_restart_does_not_deadlock(
    supervise: Supervise, log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_receiver, "_JOIN_S", 100.0)
    receiver = Polite(log)
    supervisor = supervise(receiver)
    supervisor.start()
    log.await_count("receive")
    receiver.restart("again", None, 0)
    log.await_count(DeregisterReceiver)
