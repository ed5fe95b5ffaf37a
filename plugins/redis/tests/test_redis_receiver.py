"""The receiver ``redis`` with a real server: what it stores, acknowledges, takes over, gives up and reports."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from penstock import SourceStatus
from penstock_brokers import Secret
from penstock_redis.consumer_group import ConsumerGroup
from penstock_testing import ManualClock, ReceiverHarness

if TYPE_CHECKING:
    from pathlib import Path

    from plugins.redis.tests.conftest import Stream

    from penstock_redis.server import RedisServer

Launch = Callable[..., ReceiverHarness]


def status(launched: ReceiverHarness) -> SourceStatus:
    return launched.info.source or SourceStatus()


def test_entries_are_stored_and_acknowledged(stream: Stream, launch: Launch) -> None:
    stream.add("a", "b")
    launched = launch(stream.receiver())
    launched.until_records(["a", "b"])
    stream.add("c")
    launched.until_records(["a", "b", "c"])
    launched.until(lambda: not stream.pending())


def test_several_columns_read_as_rows(stream: Stream, launch: Launch) -> None:
    (entry_id,) = stream.add("1", unit="C")
    launched = launch(stream.receiver(columns=("id", "value", "fields")))
    launched.until_count(1)
    (row,) = launched.records
    assert (row.id, row.value, dict(row.fields)) == (entry_id.decode(), "1", {"value": "1", "unit": "C"})


def test_several_streams(stream: Stream, launch: Launch, server: RedisServer) -> None:
    other = type(stream)(server, stream.client)
    stream.add("a")
    launched = launch(stream.receiver(streams=f"{stream.name}, {other.name}", columns=("stream", "value")))
    launched.until_count(1)
    other.add("b")
    launched.until_count(2)
    assert {tuple(row) for row in launched.records} == {(stream.name, "a"), (other.name, "b")}
    launched.until(lambda: not stream.pending() and not other.pending())


@pytest.mark.parametrize(
    ("start", "expected"), [("earliest", "abc"), ("latest", "c"), ("1-1", "bc"), ("2", "bc"), ("0", "abc")]
)
def test_new_group_starts_where_it_is_told(stream: Stream, launch: Launch, start: str, expected: str) -> None:
    for number, value in enumerate("ab", 1):
        stream.client.xadd(stream.name, {"value": value}, f"{number}-1")
    launched = launch(stream.receiver(start=start))
    launched.until(lambda: stream.client.xinfo_groups(stream.name))
    stream.add("c")
    launched.until_records(list(expected))


def test_what_is_not_stored_comes_again_to_the_next_launch(stream: Stream, launch: Launch) -> None:
    stream.add("a", "b")
    first = launch(stream.receiver(), settings={"spark.penstock.receiver.storeRetries": "0"})
    first.refuse()
    first.until_error("the harness refuses block")
    first.stop()
    assert {count for _, count in stream.pending().values()} >= {1}
    second = launch(stream.receiver())
    second.until_records(["a", "b"])
    second.until(lambda: not stream.pending())
    second.until(lambda: status(second).redelivered == 2)


def test_entries_of_a_dead_consumer_are_taken_over(stream: Stream, launch: Launch) -> None:
    stream.client.xgroup_create(stream.name, "penstock", "0", mkstream=True)
    stream.add("a", "b")
    stream.read_as("dead", 1)
    launched = launch(stream.receiver(min_idle=0.1, columns=("value", "deliveries")))
    launched.until_count(2)
    assert sorted(map(tuple, launched.records)) == [("a", 2), ("b", 1)]
    launched.until(lambda: not stream.pending())


def test_entries_that_a_store_holds_are_not_taken_over(stream: Stream, launch: Launch) -> None:
    launched = launch(stream.receiver(min_idle=0.3))
    launched.hold()
    stream.add("a", "b")
    launched.until(lambda: launched.offers)
    client = stream.server.client()
    group = ConsumerGroup(client, "penstock", "thief", (stream.name.encode(),))
    ends = time.monotonic() + 1
    while time.monotonic() < ends:
        assert group.claim(stream.name.encode(), b"0-0", 10, 300)[1].entries == []
    client.close()
    launched.accept()
    launched.until_records(["a", "b"])
    launched.until(lambda: not stream.pending())


def test_acknowledgement_that_failed_is_repeated_and_the_entry_is_not(own_stream: Stream, launch: Launch) -> None:
    launched = launch(own_stream.receiver())
    launched.hold()
    own_stream.add("a")
    launched.until(lambda: launched.offers)
    own_stream.server.kill()
    launched.accept()
    launched.until_error("Redis at 127.0.0.1")
    own_stream.server.start()
    own_stream.add("b")
    launched.until_records(["a", "b"])
    launched.until(lambda: not own_stream.pending())


def test_entries_trimmed_while_pending_are_reported(stream: Stream, launch: Launch) -> None:
    stream.client.xgroup_create(stream.name, "penstock", "0", mkstream=True)
    first, *_ = stream.add("a", "b", "c")
    stream.read_as("dead", 2)
    stream.client.xtrim(stream.name, maxlen=1, approximate=False)
    launched = launch(stream.receiver(min_idle=0.1))
    launched.until_error(f"2 entries of stream '{stream.name}' are lost: after their delivery they were trimmed")
    assert launched.errors[-1].endswith(f"The first is {first.decode()}")
    launched.until_records(["c"])
    launched.until(lambda: not stream.pending())


def test_own_entries_trimmed_while_pending_are_reported(stream: Stream, launch: Launch) -> None:
    stream.client.xgroup_create(stream.name, "penstock", "0", mkstream=True)
    stream.add("a", "b")
    stream.read_as("me")
    stream.client.xtrim(stream.name, maxlen=1, approximate=False)
    launched = launch(stream.receiver(consumer="me"))
    launched.until_error(f"1 entries of stream '{stream.name}' are lost: after their delivery")
    launched.until_records(["b"])
    launched.until(lambda: not stream.pending())


def test_entries_trimmed_before_they_were_read_are_reported(stream: Stream, launch: Launch) -> None:
    launched = launch(stream.receiver(min_idle=0.2))
    launched.hold()
    stream.add("a")
    launched.until(lambda: launched.offers)
    with stream.client.pipeline(transaction=True) as at_once:
        for value in "bcd":
            at_once.xadd(stream.name, {"value": value})
        at_once.xtrim(stream.name, maxlen=1, approximate=False)
        at_once.execute()
    launched.until_error(f"2 entries of stream '{stream.name}' are lost: they were trimmed before")
    launched.accept()
    launched.until_records(["a", "d"])


def test_undecodable_entry_stays_pending_and_is_reported(stream: Stream, launch: Launch) -> None:
    stream.add("a", b"\xff", "c")
    launched = launch(stream.receiver())
    launched.until_error(f"1 entries of stream '{stream.name}' cannot be decoded and stay pending")
    launched.until_records(["a", "c"])
    launched.until(lambda: len(stream.pending()) == 1)


def test_undecodable_entry_becomes_a_dead_letter(stream: Stream, launch: Launch) -> None:
    stream.add("a", b"\xff", "c")
    launched = launch(stream.receiver(dead_letter=f"{stream.name}-dead"))
    launched.until_records(["a", "c"])
    launched.until(lambda: not stream.pending() and stream.client.xlen(f"{stream.name}-dead") == 1)
    ((_, fields),) = stream.client.xrange(f"{stream.name}-dead")
    assert (fields[b"value"], fields[b"penstock-reason"]) == (b"\xff", b"undecodable")
    launched.until(lambda: status(launched).dead_letters == 1)


def test_entry_is_not_acknowledged_if_it_cannot_become_a_dead_letter(stream: Stream, launch: Launch) -> None:
    stream.client.set(f"{stream.name}-dead", "no stream")
    stream.add(b"\xff")
    launched = launch(stream.receiver(dead_letter=f"{stream.name}-dead"))
    launched.until_error("holds no stream")
    assert len(stream.pending()) == 1


def test_entry_stays_while_the_server_has_no_memory_for_the_dead_letter(own_stream: Stream, launch: Launch) -> None:
    dead_letter = f"{own_stream.name}-dead"
    launched = launch(own_stream.receiver(dead_letter=dead_letter, min_idle=0.1))
    launched.hold()
    own_stream.add("a", b"\xff")
    launched.until(lambda: launched.offers)
    own_stream.client.config_set("maxmemory", 1)
    launched.accept()
    launched.until_error("has no memory left")
    assert len(own_stream.pending()) >= 1
    own_stream.client.config_set("maxmemory", 0)
    launched.until(lambda: own_stream.client.xlen(dead_letter) == 1 and not own_stream.pending())
    launched.until_records(["a"])


def test_entry_that_another_program_claims_is_stored_once_here(stream: Stream, launch: Launch) -> None:
    launched = launch(stream.receiver())
    launched.hold()
    (entry_id,) = stream.add("a")
    launched.until(lambda: launched.offers)
    stream.client.xclaim(stream.name, "penstock", "other", 0, [entry_id])
    launched.accept()
    launched.until_records(["a"])
    # An acknowledgement counts for the group.
    launched.until(lambda: not stream.pending())
    assert launched.errors == []


def test_entry_that_comes_too_often_becomes_a_dead_letter(stream: Stream, launch: Launch) -> None:
    stream.client.xgroup_create(stream.name, "penstock", "0", mkstream=True)
    stream.add("kills")
    stream.read_as("dead")
    for _ in range(2):
        stream.client.xautoclaim(stream.name, "penstock", "dead", 0, "0-0")
    dead_letter = f"{stream.name}-dead"
    launched = launch(stream.receiver(min_idle=0.1, dead_letter=dead_letter, max_deliveries=3))
    launched.until(lambda: stream.client.xlen(dead_letter) == 1)
    ((_, fields),) = stream.client.xrange(dead_letter)
    assert (fields[b"penstock-reason"], fields[b"penstock-deliveries"]) == (b"deliveries", b"4")
    launched.until(lambda: not stream.pending())
    assert launched.records == []


def test_reads_no_more_than_the_rate_limit_lets_through(stream: Stream, launch: Launch) -> None:
    stream.add(*map(str, range(100)))
    settings = {"spark.streaming.receiver.maxRate": "20", "spark.streaming.blockInterval": "500ms"}
    clock = ManualClock()
    launched = launch(stream.receiver(), clock, settings)
    clock.await_waiters(2)
    # What the limit let through at the start, and what it holds.
    assert len(stream.pending()) <= 10
    assert launched.count <= 10


def test_reports_its_lag_while_the_rate_limit_holds_a_store(stream: Stream, launch: Launch) -> None:
    stream.add(*"abcd")
    launched = launch(stream.receiver(min_idle=0.4), settings={"spark.streaming.backpressure.initialRate": "0.01"})
    # One is stored, and one waits in the store.
    launched.until(lambda: status(launched).oldest_unacknowledged_s)
    assert status(launched).lag_messages == 2
    assert status(launched).lag_s
    launched.update_rate(None)
    launched.until(lambda: status(launched).lag_messages == 0)
    launched.until(lambda: status(launched) == SourceStatus(lag_messages=0, lag_s=0.0))


def test_stop_removes_the_consumer_if_it_has_nothing_pending(stream: Stream, launch: Launch) -> None:
    stream.add("a")
    launched = launch(stream.receiver())
    launched.until_records(["a"])
    launched.until(lambda: not stream.pending())
    launched.stop()
    assert stream.client.xinfo_consumers(stream.name, "penstock") == []


# -- bad input --


def test_server_that_is_away_is_reported_until_it_is_back(own_stream: Stream, launch: Launch) -> None:
    own_stream.server.stop()
    launched = launch(own_stream.receiver())
    launched.until_error(f"Redis at 127.0.0.1:{own_stream.server.port}: Error 111")
    own_stream.server.start()
    own_stream.add("a")
    launched.until_records(["a"])


def test_server_that_lost_its_data_is_read_from_the_start(own_stream: Stream, launch: Launch) -> None:
    own_stream.add("a")
    launched = launch(own_stream.receiver(start="latest"))
    launched.until(
        lambda: own_stream.client.exists(own_stream.name) and own_stream.client.xinfo_groups(own_stream.name)
    )
    own_stream.add("b")
    launched.until_records(["b"])
    own_stream.server.restart(keep_data=False)
    own_stream.add("c")
    launched.until_records(["b", "c"])


def test_deleted_stream_is_created_again_and_read_from_its_start(stream: Stream, launch: Launch) -> None:
    stream.add("a")
    launched = launch(stream.receiver(start="latest"))
    launched.until(lambda: stream.client.xinfo_groups(stream.name))
    stream.client.delete(stream.name)
    stream.add("b")
    launched.until_error("was deleted. The receiver creates it again")
    launched.until_records(["b"])


def test_deleted_group_is_created_again_after_the_last_entry(stream: Stream, launch: Launch) -> None:
    stream.add("a")
    launched = launch(stream.receiver())
    launched.until_records(["a"])
    launched.until(lambda: not stream.pending())
    stream.client.xgroup_destroy(stream.name, "penstock")
    stream.add("b")
    launched.until_records(["a", "b"])


def test_key_that_is_no_stream_is_reported(stream: Stream, launch: Launch) -> None:
    stream.client.set(stream.name, "text")
    launched = launch(stream.receiver())
    launched.until_error(f"a key of '{stream.name}' at Redis at 127.0.0.1:{stream.server.port} holds no stream")
    stream.client.delete(stream.name)
    stream.add("a")
    launched.until_records(["a"])


def test_user_needs_the_right_password(stream: Stream, launch: Launch, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("right\n")
    stream.client.acl_setuser(
        "reader",
        enabled=True,
        reset_keys=True,
        reset_passwords=True,
        passwords=["+right"],
        keys=[stream.name],
        commands=[f"+{name}" for name in ("xreadgroup", "xack", "xautoclaim", "xclaim", "xpending", "xinfo", "xgroup")]
        + ["+exists", "+time", "+multi", "+exec"],
    )
    stream.add("a")
    launched = launch(stream.receiver(username="reader", password=Secret(f"file:{secret}")))
    launched.until_records(["a"])
    launched.until(lambda: not stream.pending())
    launched.stop()
    assert launched.errors == []
    secret.write_text("a wrong one")
    refused = launch(stream.receiver(username="reader", password=Secret(f"file:{secret}")))
    refused.until_error("refused user 'reader'")
    assert "a wrong one" not in str(refused.errors)


def test_user_that_may_not_read_is_reported(stream: Stream, launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("right")
    stream.client.acl_setuser("writer", enabled=True, passwords=["+right"], keys=["*"], commands=["+xadd"])
    launched = launch(stream.receiver(username="writer", password=Secret(f"file:{tmp_path / 'secret'}")))
    launched.until_error("does not permit a command to user 'writer'")


def test_stop_does_not_wait_for_a_suspended_server(own_stream: Stream, launch: Launch) -> None:
    launched = launch(own_stream.receiver())
    launched.until(lambda: own_stream.client.exists(own_stream.name))
    own_stream.server.suspend()
    began = time.monotonic()
    launched.stop()
    assert time.monotonic() - began < 9
    own_stream.server.resume()


def test_server_that_does_not_answer_is_reported(own_stream: Stream, launch: Launch) -> None:
    launched = launch(own_stream.receiver(timeout=0.5))
    launched.until(lambda: own_stream.client.exists(own_stream.name))
    own_stream.server.suspend()
    launched.until_error("Timeout")
    own_stream.server.resume()
    own_stream.add("a")
    launched.until_records(["a"])
