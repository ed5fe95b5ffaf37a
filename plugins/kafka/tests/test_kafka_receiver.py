"""The receiver against librdkafka's mock cluster: records, positions, commits, errors."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from plugins.kafka.tests.conftest import QUICK, MakeTopic, Topic
from tests.helpers import wait_for

from penstock_kafka.mock_cluster import MockCluster
from penstock_testing import ReceiverHarness

OFFSET_COMMIT, UNKNOWN_MEMBER = 8, 25


def test_records_are_committed_once_they_are_stored(topic: Topic) -> None:
    topic.put("a", "b", "c")
    with ReceiverHarness(topic.receiver()) as harness:
        harness.until_records(["a", "b", "c"])
        wait_for(lambda: topic.committed() == 3, "the offset is committed")
        assert harness.position == {f"{topic.name}/0": 3}
        harness.hold()
        topic.put("d")
        harness.until(lambda: harness.offers > 1)
        assert topic.committed() == 3
        harness.accept()
        harness.until_records(["a", "b", "c", "d"])
        wait_for(lambda: topic.committed() == 4, "the offset is committed")


def test_stop_commits_what_is_stored_and_leaves_the_group(topic: Topic) -> None:
    topic.put("a")
    with ReceiverHarness(topic.receiver()) as harness:
        harness.until_records(["a"])
    assert topic.committed() == 1
    topic.put("b")
    with ReceiverHarness(topic.receiver()) as harness:
        harness.until_records(["b"])


def test_restart_seeks_to_the_stored_position_though_nothing_is_committed(cluster: MockCluster, topic: Topic) -> None:
    cluster.fail_requests(OFFSET_COMMIT, [UNKNOWN_MEMBER] * 100)
    topic.put("a", "b")
    with ReceiverHarness(topic.receiver()) as harness:
        harness.until_records(["a", "b"])
        harness.restart()
        harness.until(lambda: harness.starts == 2)
        topic.put("c")
        harness.until_records(["a", "b", "c"])
    cluster.fail_requests(OFFSET_COMMIT, [])


def test_committed_offset_counts_if_another_member_read_further(topic: Topic) -> None:
    topic.put("a", "b", "c")
    with ReceiverHarness(topic.receiver()) as harness:
        harness.until_records(["a", "b", "c"])
    later = ReceiverHarness(topic.receiver())
    later.position = {f"{topic.name}/0": 1}
    with later:
        topic.put("d")
        later.until_records(["d"])


def test_columns_are_those_of_kafka(topic: Topic) -> None:
    began = datetime.now(UTC)
    topic.put("v", key="k", headers=[("h", b"1"), ("h", b"2")])
    topic.put(None, key=b"\xff")
    columns = ("key", "value", "headers", "topic", "partition", "offset", "timestamp", "deliveries")
    with ReceiverHarness(topic.receiver(columns=columns)) as harness:
        harness.until_count(2)
        first, second = harness.records
    assert (first.key, first.value, first.topic, first.partition, first.offset) == (b"k", "v", topic.name, 0, 0)
    assert [(header["key"], header["value"]) for header in first.headers] == [("h", b"1"), ("h", b"2")]
    assert (second.key, second.value, second.headers, second.offset) == (b"\xff", None, [], 1)
    assert abs((first.timestamp.replace(tzinfo=first.timestamp.tzinfo or UTC) - began).total_seconds()) < 60
    assert first.deliveries is None


def test_pattern_and_partitions_are_read_together(make_topic: MakeTopic) -> None:
    first, second = make_topic(3), make_topic(2)
    for number in range(3):
        first.put(f"first-{number}", partition=number)
    second.put("second", partition=1)
    pattern = f"({first.name}|{second.name})$"
    with ReceiverHarness(first.receiver(topics=(), topic_pattern=pattern)) as harness:
        harness.until_count(4)
        assert sorted(harness.records) == ["first-0", "first-1", "first-2", "second"]
        wait_for(lambda: first.committed(2) == 1, "the offset is committed")
    assert harness.position[f"{second.name}/1"] == 1


@pytest.mark.parametrize("start", ["latest", "offsets"])
def test_start_is_committed_before_anything_is_read(topic: Topic, start: str) -> None:
    topic.put("old", "older", timestamp=1_000)
    topic.put("recent", timestamp=2_000)
    starts = {"latest": "latest", "offsets": f'{{"{topic.name}": {{"0": 2}}}}'}
    expected = [] if start == "latest" else ["recent"]
    with ReceiverHarness(topic.receiver(start=starts[start])) as harness:
        wait_for(lambda: topic.committed() >= 2, "the start is committed")
        topic.put("new")
        harness.until_records([*expected, "new"])


def test_records_deleted_before_they_were_received_are_reported(topic: Topic) -> None:
    topic.put("a")
    with ReceiverHarness(topic.receiver()) as harness:
        harness.until_records(["a"])
    topic.put("b", "c", "d")
    topic.cluster.delete_records(topic.name, 0, 3)
    with ReceiverHarness(topic.receiver()) as harness:
        harness.until_records(["d"])
        harness.until_error(f"2 records of partition 0 of topic {topic.name} are lost, offsets 1 to 2")


def test_lost_records_end_the_receiver_if_it_is_to_fail(topic: Topic) -> None:
    topic.put("a", "b")
    with ReceiverHarness(topic.receiver()) as harness:
        harness.until_records(["a", "b"])
    topic.put("c", "d")
    topic.cluster.delete_records(topic.name, 0, 3)
    with ReceiverHarness(topic.receiver(on_data_loss="fail")) as harness:
        harness.until_error("on_data_loss=report continues with offset 3")
        assert harness.count == 0
        wait_for(lambda: harness.starts > 1, "the receiver restarts")


def test_record_that_cannot_be_decoded_goes_to_the_dead_letters(topic: Topic) -> None:
    topic.put("a")
    topic.put(b"\xff\xfe", key="k", headers=[("h", b"1")])
    topic.put("b")
    rejected = f"rejected-of-{topic.name}"
    with ReceiverHarness(topic.receiver(dead_letter=rejected)) as harness:
        harness.until_records(["a", "b"])
        harness.until_error(f"not decodable as text: 1 (1 in total): published to {rejected}")
        wait_for(lambda: topic.committed() == 3, "the offset is committed")
        harness.until(lambda: harness.info.source is not None and harness.info.source.dead_letters == 1)
    (letter,) = topic.read(rejected, 1)
    headers = dict(letter.headers())
    assert (letter.key(), letter.value(), headers["h"]) == (b"k", b"\xff\xfe", b"1")
    assert headers["penstock-reason"] == b"undecodable"
    assert headers["penstock-origin"] == f"{topic.name}/0/1".encode()


def test_without_dead_letters_a_record_that_cannot_be_decoded_stays(topic: Topic) -> None:
    topic.put("a", b"\xff", "b")
    with ReceiverHarness(topic.receiver()) as harness:
        harness.until_records(["a"])
        harness.until_error(f"{topic.name}/0/1 cannot be decoded as text")
        wait_for(lambda: topic.committed() == 1, "the records before it are committed")
    assert topic.committed() == 1


def test_json_is_checked_and_stored_as_text(topic: Topic) -> None:
    topic.put('{"a": 1}', "{", "[]")
    with ReceiverHarness(topic.receiver(value_as="json", dead_letter="no-json")) as harness:
        harness.until_records(['{"a": 1}', "[]"])


def test_topic_that_does_not_exist_yet_is_read_once_it_does(cluster: MockCluster, topic: Topic) -> None:
    later = f"later-{topic.name}"
    settings = {
        "topic.metadata.refresh.interval.ms": "100",
        "allow.auto.create.topics": "false",
        "session.timeout.ms": "2000",
    }
    receiver = topic.receiver(topics=(), topic_pattern=later, settings=settings)
    with ReceiverHarness(receiver) as harness:
        cluster.create_topic(later, 1)
        topic.producer.produce(later, b"a", partition=0)
        topic.producer.flush(10)
        harness.until_records(["a"])


def test_topic_that_is_deleted_and_created_again_is_received_from_its_beginning(topic: Topic) -> None:
    settings = {
        "topic.metadata.refresh.interval.ms": "100",
        "topic.metadata.propagation.max.ms": "100",
        "allow.auto.create.topics": "false",
        "session.timeout.ms": "2000",
        "heartbeat.interval.ms": "100",
    }
    topic.put("a", "b", "c")
    with ReceiverHarness(topic.receiver(settings=settings)) as harness:
        harness.until_count(3)
        topic.cluster.delete_topic(topic.name)
        harness.until_error("it is read once it exists")
        # With more partitions than it had.
        topic.cluster.create_topic(topic.name, 2)
        topic.renew_producer()
        topic.put("d")
        topic.put("e", partition=1)
        harness.until(lambda: set(harness.records[3:]) == {"d", "e"})
        harness.until_error("the topic was deleted and created again")


def test_member_that_another_program_expels_joins_again_and_repeats_nothing(topic: Topic) -> None:
    unknown_member_id, heartbeat = 25, 12
    settings = {"session.timeout.ms": "2000", "heartbeat.interval.ms": "50"}
    topic.put("a", "b")
    with ReceiverHarness(topic.receiver(settings=settings)) as harness:
        harness.until_records(["a", "b"])
        wait_for(lambda: topic.committed() == 2, "the offsets are committed")
        topic.cluster.fail_requests(heartbeat, [unknown_member_id])
        topic.put("c")
        harness.until_records(["a", "b", "c"])
        wait_for(lambda: topic.committed() == 3, "the offset is committed")
    assert harness.errors == []


def test_record_larger_than_a_fetch_is_received(topic: Topic) -> None:
    large = "x" * 500_000
    topic.put("a", large, "b")
    with ReceiverHarness(topic.receiver(settings=QUICK | {"fetch.message.max.bytes": "1000"})) as harness:
        harness.until_records(["a", large, "b"])


def test_dead_letter_that_the_broker_refuses_stays(topic: Topic) -> None:
    not_authorized, produce = 29, 0
    topic.put("a", b"\xff", "b")
    topic.cluster.fail_requests(produce, [not_authorized] * 100)
    with ReceiverHarness(topic.receiver(dead_letter=f"rejected-of-{topic.name}")) as harness:
        harness.until_error(f"{topic.name}/0/1 cannot be published to dead_letter=rejected-of-{topic.name}")
        assert topic.committed() <= 1
        topic.cluster.fail_requests(produce, [])
        harness.until_records(["a", "b"])
    assert len(topic.read(f"rejected-of-{topic.name}", 1)) == 1


def test_clock_of_the_producer_decides_neither_order_nor_lag(topic: Topic) -> None:
    topic.put("a", timestamp=4_000_000_000_000)
    topic.put("b", timestamp=1)
    with ReceiverHarness(topic.receiver()) as harness:
        harness.until_records(["a", "b"])
        harness.until(lambda: harness.info.source is not None and harness.info.source.lag_messages == 0)
        assert harness.info.source is not None
        assert harness.info.source.lag_s == 0


def test_held_receiver_keeps_its_partitions(topic: Topic) -> None:
    settings = {"max.poll.interval.ms": "1000", "session.timeout.ms": "1000", "heartbeat.interval.ms": "100"}
    topic.put("a")
    with ReceiverHarness(topic.receiver(settings=settings)) as harness:
        harness.until_records(["a"])
        harness.hold()
        for number in range(3):
            topic.put(str(number))
            harness.until(lambda: harness.offers > 1)
        assert not harness.supervisor.await_end(2.5)
        harness.accept()
        harness.until_records(["a", "0", "1", "2"])
        topic.put("b")
        harness.until_records(["a", "0", "1", "2", "b"])
    assert harness.errors == []
    assert topic.committed() == 5


def test_wrong_address_is_reported_once_with_advice() -> None:
    cluster = MockCluster()
    topic = Topic(cluster, "gone", 1)
    receiver = topic.receiver()
    cluster.close()
    with ReceiverHarness(receiver) as harness:
        harness.until_error("is bootstrap_servers right, and does the broker run?")
        assert not harness.supervisor.await_end(0.3)
        assert len(harness.errors) == 1


def test_lag_is_the_number_of_records_behind(topic: Topic) -> None:
    topic.put("a")
    with ReceiverHarness(topic.receiver()) as harness:
        harness.until_records(["a"])
        harness.until(lambda: harness.info.source is not None and harness.info.source.lag_messages == 0)
        assert harness.info.source is not None
        assert harness.info.source.lag_by_partition == {f"{topic.name}/0": 0}


def test_lag_is_known_by_partition_while_the_receiver_is_held(make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    topic.put(*map(str, range(300)))
    topic.put(*map(str, range(200)), partition=1)

    def is_known(harness: ReceiverHarness) -> bool:
        source = harness.info.source
        if source is None or len(source.lag_by_partition) < 2:
            return False
        return (
            sum(source.lag_by_partition.values()) == source.lag_messages and max(source.lag_by_partition.values()) > 100
        )

    with ReceiverHarness(topic.receiver(), {"spark.streaming.receiver.maxRate": "10"}) as harness:
        harness.until(lambda: is_known(harness))


def test_rate_limit_holds(topic: Topic) -> None:
    topic.put(*map(str, range(300)))
    conf = {"spark.streaming.receiver.maxRate": "100"}
    with ReceiverHarness(topic.receiver(settings=QUICK), conf) as harness:
        harness.until_count(60)
        assert harness.count < 200
        assert all(block.metadata for block in harness.blocks)
