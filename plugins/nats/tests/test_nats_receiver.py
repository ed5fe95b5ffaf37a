"""The receiver ``nats`` against a real server: what it stores, acknowledges, returns and gives up."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from plugins.nats.tests.js_stream import JsStream
from pyspark.sql import Row
from tests.helpers import wait_for

from penstock import SourceStatus
from penstock_testing import ReceiverHarness

Launch = Callable[..., ReceiverHarness]
QUICK = {"spark.streaming.blockInterval": "20ms", "spark.streaming.receiverRestartDelay": "50ms"}


def lines(first: int, last: int) -> list[str]:
    return [f"line {number}" for number in range(first, last)]


def test_messages_are_stored_in_order_and_then_acknowledged(stream: JsStream, launch: Launch) -> None:
    stream.publish(*lines(0, 300))
    harness = launch(stream.receiver(batch=100), settings=QUICK)
    harness.until_count(300)
    assert harness.records == lines(0, 300)
    harness.until(lambda: stream.is_acknowledged(300))
    stream.publish(*lines(300, 310))
    harness.until_count(310)
    harness.stop()
    assert harness.errors == []
    # The next launch continues there.
    stream.publish(*lines(310, 320))
    again = launch(stream.receiver(), settings=QUICK)
    again.until_count(10)
    assert again.records == lines(310, 320)


def test_nothing_is_acknowledged_before_it_is_stored(stream: JsStream, launch: Launch) -> None:
    stream.publish(*lines(0, 10))
    harness = launch(stream.receiver(), settings=QUICK)
    harness.hold()
    stream.publish(*lines(10, 20))
    harness.until(lambda: harness.offers > len(harness.blocks))
    assert not stream.is_acknowledged(20)
    harness.accept()
    harness.until(lambda: stream.is_acknowledged(20))
    assert sorted(harness.records) == sorted(lines(0, 20))


def test_stored_messages_are_acknowledged_when_the_receiver_stops(stream: JsStream, launch: Launch) -> None:
    harness = launch(stream.receiver(), settings=QUICK)
    harness.hold()
    stream.publish(*lines(0, 50))
    harness.until(lambda: harness.offers > 0)
    harness.receiver.stop("enough")
    wait_for(harness.receiver.isStopped, "the receiver is stopped")
    harness.accept()
    harness.stop()
    info = stream.consumer()
    assert info.ack_floor is not None
    assert (info.num_ack_pending, info.ack_floor.stream_seq) == (0, harness.count)
    assert harness.count > 0


def test_all_columns(stream: JsStream, launch: Launch) -> None:
    before = datetime.now(UTC)
    stream.publish('{"a": 1}', subject="b", headers={"kind": "test"})
    every = "subject,value,headers,stream,sequence,timestamp,deliveries"
    harness = launch(stream.receiver(columns=every, value_as="json"), settings=QUICK)
    harness.until_count(1)
    (row,) = harness.records
    assert isinstance(row, Row)
    assert (row.subject, row.value, row.headers) == (f"{stream.name}.b", '{"a": 1}', [("kind", "test")])
    assert (row.stream, row.sequence, row.deliveries) == (stream.name, 1, 1)
    assert before <= row.timestamp.replace(tzinfo=row.timestamp.tzinfo or UTC) <= datetime.now(UTC)


def test_subjects_are_chosen_by_patterns(stream: JsStream, launch: Launch) -> None:
    for subject in ("eu.a", "eu.b", "us.a", "plain"):
        stream.publish(subject, subject=subject)
    harness = launch(stream.receiver(subjects=[f"{stream.name}.eu.*", f"{stream.name}.plain"]), settings=QUICK)
    harness.until_count(3)
    stream.publish("us.b", subject="us.b")
    stream.publish("last", subject="eu.c")
    harness.until_count(4)
    assert harness.records == ["eu.a", "eu.b", "plain", "last"]


def test_a_new_consumer_starts_at_latest_or_at_a_time(stream: JsStream, launch: Launch) -> None:
    stream.publish("old")
    middle = datetime.now(UTC).isoformat()
    stream.publish("newer")
    latest = launch(stream.receiver(consumer="latest", start="latest"), settings=QUICK)
    latest.until(lambda: stream.has_consumer("latest"))
    stream.publish("newest")
    timed = launch(stream.receiver(consumer="timed", start=middle), settings=QUICK)
    latest.until_count(1)
    timed.until_count(2)
    assert (latest.records, timed.records) == (["newest"], ["newer", "newest"])


def test_redeliveries_and_lag_are_reported(stream: JsStream, launch: Launch) -> None:
    stream.publish(*lines(0, 10))
    harness = launch(stream.receiver(consumer="c"), settings=QUICK)
    harness.until(lambda: harness.info.source is not None)
    harness.until(lambda: harness.info.source == SourceStatus(0, 0.0))
    harness.stop()
    stream.publish(*lines(10, 15))

    async def take_and_return(js: Any) -> None:
        subscription = await js.pull_subscribe_bind("c", stream.name)
        for message in await subscription.fetch(5, 10):
            await message.nak()

    stream.ask(take_and_return)
    again = launch(stream.receiver(), settings=QUICK)
    again.until_count(5)
    again.until(lambda: again.info.source == SourceStatus(0, 0.0, redelivered=5))


def test_message_that_cannot_be_decoded_goes_to_the_dead_letters(stream: JsStream, launch: Launch) -> None:
    dead = JsStream(stream.server, f"{stream.name}-dead")
    stream.publish("good", b"\xff\xfe", "better", headers={"kind": "test"})
    harness = launch(stream.receiver(dead_letter=f"{dead.name}.all"), settings=QUICK)
    harness.until(lambda: stream.is_acknowledged(3))
    assert harness.records == ["good", "better"]
    letter = dead.message(1)
    assert letter.data == b"\xff\xfe"
    assert letter.headers is not None
    headers = dict(letter.headers)
    error = headers.pop("penstock-error")
    assert "UTF" in error
    assert headers == {
        "kind": "test",
        "penstock-reason": "undecodable",
        "penstock-deliveries": "1",
        "penstock-origin": f"{stream.name}/2 {stream.name}.a",
        "Nats-Msg-Id": f"c/{stream.name}/2",
    }
    harness.until(lambda: harness.info.source == SourceStatus(0, 0.0, dead_letters=1))
    assert "1 messages cannot be decoded as text and are in" in harness.errors[0]


def test_without_dead_letters_such_a_message_stays_and_comes_again(stream: JsStream, launch: Launch) -> None:
    stream.publish("good", "no JSON", "2")
    stream.publish("1")
    harness = launch(stream.receiver(value_as="json", retry_delay=0.1), settings=QUICK)
    harness.until(lambda: len(harness.errors) > 2)
    harness.until_count(2)
    assert harness.records == ["2", "1"]
    info = stream.consumer()
    assert info.num_ack_pending == 2
    assert "set the option dead_letter to give them up" in harness.errors[0]


def test_message_that_comes_too_often_goes_to_the_dead_letters(stream: JsStream, launch: Launch) -> None:
    dead = JsStream(stream.server, f"{stream.name}-dead")
    harness = launch(stream.receiver(), settings=QUICK)
    harness.until(stream.has_consumer)
    harness.stop()
    stream.publish("deadly")

    async def crash(js: Any) -> None:
        subscription = await js.pull_subscribe_bind("c", stream.name)
        for _ in range(3):
            (message,) = await subscription.fetch(1, 10)
            await message.nak()

    stream.ask(crash)
    stream.publish("harmless")
    options = {"dead_letter": f"{dead.name}.all", "max_deliveries": 3}
    again = launch(stream.receiver(**options), settings=QUICK)
    again.until(lambda: stream.is_acknowledged(2))
    assert again.records == ["harmless"]
    headers = dead.message(1).headers or {}
    assert (headers["penstock-reason"], headers["penstock-deliveries"]) == ("deliveries", "4")
    assert headers["penstock-error"] == "delivered 4 times, more than max_deliveries=3"


def test_pause_longer_than_the_lease_stores_nothing_twice(stream: JsStream, launch: Launch) -> None:
    stream.publish(*lines(0, 40))
    harness = launch(stream.receiver(ack_wait=3.0), settings=QUICK)
    harness.hold()
    stream.publish(*lines(40, 80))
    harness.until(lambda: harness.offers > len(harness.blocks))
    held_s = time.monotonic()
    harness.until(lambda: time.monotonic() - held_s > 4.0)
    harness.accept()
    harness.until(lambda: stream.is_acknowledged(80))
    assert harness.records == lines(0, 80)
    assert stream.consumer().num_redelivered == 0
    harness.until(lambda: harness.info.source == SourceStatus(0, 0.0))


def test_what_is_in_flight_follows_the_rate_limit(stream: JsStream, launch: Launch) -> None:
    stream.publish(*lines(0, 200))
    harness = launch(
        stream.receiver(),
        settings={**QUICK, "spark.streaming.receiver.maxRate": "100", "spark.streaming.blockInterval": "100ms"},
    )
    most = 0

    def watch() -> bool:
        nonlocal most
        most = max(most, stream.consumer().num_ack_pending or 0) if stream.has_consumer() else most
        return harness.count >= 60

    harness.until(watch)
    assert 0 < most <= 10
