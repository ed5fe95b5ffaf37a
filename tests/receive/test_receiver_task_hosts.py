"""``ReceiverTask`` on a host of its own: the address by which it reaches the driver, IPv6, and its TLS files."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve
from tests.helpers.fake_tracker import FakeTracker

from penstock import Receiver
from penstock.blocks import arrow_form
from penstock.blocks.block import BlockReference
from penstock.blocks.block_transfer import fetch_block
from penstock.errors import ConfigurationError, WireError
from penstock.receive.messages import AddBlocks, DeregisterReceiver, RegisterReceiver, StopReceiver
from penstock.wire.json_codec import Reply
from penstock.wire.token import Tls, Token

if TYPE_CHECKING:
    from collections.abc import Iterable
    from concurrent.futures import Future
    from pathlib import Path

    from tests.helpers import EventLog


class Counting(Receiver[int]):
    """Stores three numbers when it starts."""

    def onStart(self) -> None:
        self.store_all([1, 2, 3])


@pytest.fixture(autouse=True)
def _local_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))


@pytest.fixture
def make_tracker(log: EventLog) -> Iterator[Callable[..., FakeTracker]]:
    """Makes trackers; stops them at the end."""
    trackers: list[FakeTracker] = []

    def make(host: str = "127.0.0.1") -> FakeTracker:
        trackers.append(FakeTracker(log, host))
        return trackers[-1]

    yield make
    for tracker in trackers:
        tracker.endpoint.stop()


@pytest.fixture
def tracker(make_tracker: Callable[..., FakeTracker]) -> FakeTracker:
    return make_tracker()


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        # A closed port, as behind a firewall; a network without a route, and a name that only the driver knows.
        ("grpc://127.0.0.1:1", "no answer from grpc://127.0.0.1:1 to RegisterReceiver"),
        ("grpc://[fe80::1%nowhere]:7190", "nowhere"),
        ("grpc://driver.invalid:7190", "the name 'driver.invalid' has no address"),
    ],
)
def test_host_that_does_not_reach_the_driver_is_named_with_address_and_keys(
    tracker: FakeTracker, location: str, reason: str
) -> None:
    task = tracker.task(Counting(), {"spark.penstock.wire.timeout": "200ms"})
    with pytest.raises(WireError) as caught:
        list(evolve(task, driver=evolve(task.driver, location=location))(0, []))
    error = str(caught.value)
    assert reason in error
    assert f"host {socket.gethostname()} must reach the driver at that address" in error
    assert "set spark.driver.host" in error
    assert "spark.penstock.driver.port" in error


def test_receiver_registers_serves_its_blocks_and_stops_over_ipv6(
    make_tracker: Callable[..., FakeTracker], log: EventLog, background: Callable[..., Future[Any]]
) -> None:
    tracker = make_tracker("::1")

    def drive() -> Iterable[Any]:
        log.await_count(AddBlocks)
        client = tracker.client()
        block = log.of(AddBlocks)[0].blocks[0]
        reference = BlockReference(block.block_id, "/elsewhere", 3, client.location)
        fetched = list(arrow_form.records(fetch_block(reference, reference.source, tracker.token)))
        client.ask(StopReceiver("enough"), Reply)
        return fetched

    driven = background(drive)
    list(tracker.task(Counting())(0, []))
    assert driven.result(timeout=10) == [1, 2, 3]
    assert log.of(RegisterReceiver)[0].host == "::1"
    assert log.of(DeregisterReceiver)[0].message == "enough"


def with_tls(tracker: FakeTracker, tls: Tls) -> Any:
    """The task of a receiver whose host has these files."""
    task = tracker.task(Counting(), {"spark.penstock.wire.timeout": "200ms"})
    location = task.driver.location.replace("grpc:", "grpc+tls:")
    return evolve(task, driver=evolve(task.driver, location=location, token=Token("t", tls)))


def test_host_whose_certificate_has_expired_is_named_with_the_file(
    tracker: FakeTracker, log: EventLog, make_tls: Callable[..., Tls]
) -> None:
    old = make_tls("old", datetime(2020, 1, 1, tzinfo=UTC))
    host = re.escape(socket.gethostname())
    reason = rf"certificate={old.certificate!r} .*: certificate has expired, on {host}\. Each"
    with pytest.raises(ConfigurationError, match=reason):
        list(with_tls(tracker, old)(0, []))
    assert log.entries == []


def test_host_that_lacks_a_tls_file_is_named_with_it(tracker: FakeTracker, make_tls: Callable[..., Tls]) -> None:
    lacking = evolve(make_tls("ours"), key="/no/such.pem")
    with pytest.raises(ConfigurationError, match=r"tls\.key='/no/such.pem' cannot be read: No such file .*, on \S+\."):
        list(with_tls(tracker, lacking)(0, []))


def test_with_tls_the_advice_names_the_authority(tracker: FakeTracker, make_tls: Callable[..., Tls]) -> None:
    with pytest.raises(WireError, match="certificate must be of one authority"):
        list(with_tls(tracker, make_tls("theirs"))(0, []))
