"""Groups with Tansu, which evicts a dead member: nothing that was sent is lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from plugins.kafka.tests.tansu import Tansu
from tests.helpers import wait_for

from penstock_kafka import KafkaOptions, KafkaReceiver
from penstock_testing import ReceiverHarness

ROOT = Path(__file__).parents[3]
SETTINGS = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "500"}


@pytest.fixture(scope="module")
def tansu() -> Iterator[Tansu]:
    import pandas  # noqa: F401  # a start of a receiver imports it, and has a deadline

    with Tansu() as server:
        yield server


def made(tansu: Tansu, topic: str, partitions: int) -> Producer:
    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": tansu.bootstrap_servers,
        "log_level": 0,
        "linger.ms": 0,
    }
    # Without a name, it would end before the answer.
    admin = AdminClient(settings)
    for created in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        created.result(30)
    return Producer(settings)


def receiver(tansu: Tansu, topic: str, **options: str) -> KafkaReceiver:
    servers = tansu.bootstrap_servers
    return KafkaReceiver(
        KafkaOptions(bootstrap_servers=servers, topics=(topic,), group_id="group", settings=SETTINGS, **options)  # type: ignore[arg-type]
    )


def put(producer: Producer, topic: str, first: int, count: int) -> list[str]:
    values = [str(number) for number in range(first, first + count)]
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % 2)
    assert producer.flush(30) == 0
    return values


def test_successor_of_a_killed_member_receives_what_that_did_not_commit(tansu: Tansu, tmp_path: Path) -> None:
    producer = made(tansu, "kills", 2)
    sent = put(producer, "kills", 0, 500)
    stored = tmp_path / "stored"
    command = [sys.executable, "-m", "plugins.kafka.tests.member", tansu.bootstrap_servers, "kills", str(stored)]
    member = subprocess.Popen(command, cwd=ROOT)
    try:
        wait_for(lambda: stored.exists() and stored.read_text().count("\n") >= 500, "the records are stored", 30)
        sent += put(producer, "kills", 500, 500)
        wait_for(lambda: stored.read_text().count("\n") > 500, "a further record is stored", 30)
    finally:
        member.kill()
        member.wait()
    # A line may be cut off: then its block was not stored.
    before = stored.read_text().rpartition("\n")[0].split("\n")
    sent += put(producer, "kills", 1000, 100)
    with ReceiverHarness(receiver(tansu, "kills")) as harness:
        harness.until(lambda: {*before, *harness.records} == set(sent), 40)
    # What the first member had stored and not committed is at most its last batches.
    assert len(before) + harness.count - len(sent) <= 500


def test_two_members_share_the_partitions_and_neither_loses_nor_repeats(tansu: Tansu) -> None:
    producer = made(tansu, "shares", 2)
    sent = put(producer, "shares", 0, 100)
    first, second = (ReceiverHarness(receiver(tansu, "shares")) for _ in range(2))
    with first:
        first.until_count(100)
        with second:
            sent += put(producer, "shares", 100, 100)
            first.until(lambda: first.count + second.count >= 200, 40)
        sent += put(producer, "shares", 200, 100)
        first.until(lambda: first.count + second.count >= 300, 40)
    assert sorted(first.records + second.records) == sorted(sent)
