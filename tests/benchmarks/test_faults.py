"""The parts of the fault lab that need no Spark."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

from benchmarks.faults.comparison import Fault, Wipe, compare
from benchmarks.faults.lab import LabResult, table
from benchmarks.faults.producer import Producer
from benchmarks.faults.sources import WebhookSource
from tests.helpers import wait_for


def test_numbers_in_batches_are_neither_lost_nor_repeated() -> None:
    result = compare({0, 1, 2}, 3, [(1000, [0, 1]), (2000, [2])], 0, [], [])
    assert (result.sent, result.acknowledged, result.stored, result.written) == (3, 3, 3, 3)
    assert (result.lost, result.foreign, result.repeated) == (0, 0, 0)
    assert result.is_sound


def test_acknowledged_number_in_no_batch_is_lost() -> None:
    result = compare({0, 1, 2}, 3, [(1000, [0, 2])], 0, [], [])
    assert result.lost == 1
    assert not result.is_sound


def test_number_that_is_not_acknowledged_may_be_missing() -> None:
    result = compare({0, 1, 2}, 3, [(1000, [0, 1])], 1, [], [])
    assert (result.acknowledged, result.lost) == (2, 0)


def test_broker_that_loses_its_data_may_take_along_what_nobody_had_acknowledged() -> None:
    # 1 and 2 are missing; of the numbers below 3 one was not acknowledged when the data went, of those below 6 none.
    result = compare(set(range(8)), 8, [(1000, [0, 3, 4, 6, 7])], 0, [Wipe(3, 1), Wipe(6, 0)], [])
    assert (result.gone, result.lost) == (1, 2)
    assert result.acknowledged == 7


def test_number_that_nobody_published_is_foreign() -> None:
    result = compare({0}, 2, [(1000, [0, 1, 2])], 0, [], [])
    assert (result.foreign, result.is_sound) == (1, False)


def test_repetition_is_explained_by_the_last_fault_before_its_batch() -> None:
    faults = [Fault(1500, "worker killed"), Fault(2500, "connection cut")]
    batches = [(1000, [0, 0]), (2000, [0, 1]), (3000, [1]), (4000, [1])]
    result = compare({0, 1}, 2, batches, 0, [], faults)
    assert (result.repeated, result.stored, result.written) == (4, 6, 2)
    assert result.repeated_after == Counter({"connection cut": 2, "no fault": 1, "worker killed": 1})


def test_run_in_which_nothing_was_sent_shows_nothing() -> None:
    assert not compare(set(), 0, [], 0, [], []).is_sound


def test_result_is_a_row_of_a_table() -> None:
    faults = [Fault(1500, "worker killed", 3.2), Fault(2500, "connection cut", 7.8)]
    comparison = compare({0, 1}, 2, [(1000, [0]), (2000, [0, 1])], 0, [], faults)
    head, rule, row = table("redis", 7, LabResult(comparison, faults, 30.0, 1, 0)).splitlines()
    assert head.count("|") == rule.count("|") == row.count("|")
    assert row == (
        "| redis | 0.5 | 7 | 2 (1 connection cut, 1 worker killed) | 2 | 2 | 3 | 2 | 0 | 0 | 1 (1 after worker killed) "
        "| 8 |"
    )


# -- the producer --


def test_producer_publishes_each_number_once_and_knows_which_were_confirmed() -> None:
    published: list[int] = []
    disconnects: list[int] = []
    is_down = threading.Event()

    def publish(numbers: Sequence[int]) -> None:
        published.extend(numbers)
        if is_down.is_set():
            raise ConnectionError("down")

    with Producer(publish, lambda: disconnects.append(1), 2000) as producer:
        wait_for(lambda: len(published) >= 50, "50 numbers")
        is_down.set()
        wait_for(lambda: producer.failures, "a failure")
        is_down.clear()
        count = len(published)
        wait_for(lambda: len(published) > count, "a further number")
    assert published == list(range(producer.begun))
    assert producer.confirmed < set(published)
    assert len(disconnects) == producer.failures > 0


def test_paused_producer_publishes_nothing() -> None:
    published: list[int] = []
    with Producer(published.extend, lambda: None, 2000) as producer:
        wait_for(lambda: published, "the first number")
        producer.pause()
        count = len(published)
        assert producer.confirmed == set(range(count))
        producer.resume()
        wait_for(lambda: len(published) > count, "a further number")


# -- the sender of webhooks --


class Answers(BaseHTTPRequestHandler):
    """Answers the first request with 503, does not answer the second one, and answers all others with 200."""

    protocol_version = "HTTP/1.1"
    requests: ClassVar[list[list[int]]]
    answered: ClassVar[list[int]]

    def do_POST(self) -> None:
        numbers = [int(line) for line in self.rfile.read(int(self.headers["Content-Length"])).split()]
        self.requests.append(numbers)
        if len(self.requests) == 2:
            self.close_connection = True
            return
        status = 503 if len(self.requests) == 1 else 200
        if status == 200:
            self.answered.extend(numbers)
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Nothing: the output is the test's."""


def test_sender_repeats_what_was_not_answered_with_2xx_also_after_it_was_killed() -> None:
    Answers.requests, Answers.answered = [], []
    source = WebhookSource()
    with source.server as sender:
        source.publish(range(50))
        assert source.remaining() == 50
        sender.kill()
        source.publish(range(50, 60))
        with ThreadingHTTPServer(("127.0.0.1", source.port), Answers) as receiver:
            serving = threading.Thread(target=receiver.serve_forever)
            serving.start()
            sender.start()
            wait_for(lambda: source.remaining() == 0, "an empty outbox")
            receiver.shutdown()
            serving.join()
    assert len(Answers.requests) > 2
    # An answer that is late is none: its numbers come again.
    assert set(Answers.answered) == set(range(60))


def test_sender_without_its_data_has_an_empty_outbox() -> None:
    source = WebhookSource()
    with source.server as sender:
        source.publish([1, 2])
        sender.restart(keep_data=False)
        assert source.remaining() == 0
