"""Share groups, with librdkafka's mock cluster: answers after the store, deliveries counted, dead letters."""

from __future__ import annotations

from plugins.kafka.tests.conftest import Topic
from tests.helpers import wait_for

from penstock_kafka import KafkaReceiver
from penstock_testing import ReceiverHarness

READY = "ready"


def shared(topic: Topic, **options: object) -> KafkaReceiver:
    return topic.receiver(group_type="share", settings={}, columns=("value", "deliveries"), **options)


def until_joined(harness: ReceiverHarness, topic: Topic) -> None:
    """A share group begins at the end of a topic: put records until one arrives."""

    def arrived() -> bool:
        topic.put(READY)
        return harness.count > 0

    wait_for(arrived, "the receiver has joined the group", 20, poll_s=0.1)


def values(harness: ReceiverHarness) -> list[str]:
    return [record.value for record in harness.records if record.value != READY]


def test_stored_records_are_accepted_and_do_not_come_again(topic: Topic) -> None:
    with ReceiverHarness(shared(topic)) as harness:
        until_joined(harness, topic)
        topic.put("a", "b")
        harness.until(lambda: values(harness) == ["a", "b"])
    topic.put("c")
    with ReceiverHarness(shared(topic)) as harness:
        harness.until(lambda: values(harness) == ["c"])


def test_record_that_could_not_be_stored_is_delivered_again_and_counted(topic: Topic) -> None:
    conf = {"spark.penstock.receiver.storeRetries": "0"}
    with ReceiverHarness(shared(topic), conf) as harness:
        until_joined(harness, topic)
        offers = harness.offers
        harness.refuse()
        topic.put("a")
        harness.until(lambda: harness.offers > offers)
        harness.accept()
        harness.until(lambda: "a" in values(harness))
        (record,) = (record for record in harness.records if record.value == "a")
        assert record.deliveries > 1
        harness.until(lambda: harness.info.source is not None and harness.info.source.redelivered >= 1)


def test_undecodable_record_goes_to_the_dead_letters(topic: Topic) -> None:
    rejected = f"rejected-of-{topic.name}"
    with ReceiverHarness(shared(topic, dead_letter=rejected)) as harness:
        until_joined(harness, topic)
        topic.put(b"\xff", "b")
        harness.until(lambda: values(harness) == ["b"])
        harness.until_error(f"published to {rejected}")
    (letter,) = topic.read(rejected, 1)
    # More than one, if the broker ended the session before it got the answer.
    assert int(dict(letter.headers())["penstock-deliveries"]) >= 1
