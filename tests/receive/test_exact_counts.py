"""Ten receivers that store from ten threads each: every record is there once.

``benchmarks/exact_counts.py`` does it on Spark, with a hundred thousand records each.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from penstock import Receiver
from penstock.conf import Settings
from penstock.receive.messages import RegisterReceiver
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock.runtime.clock import SystemClock

if TYPE_CHECKING:
    from tests.helpers import EventLog
    from tests.receive.conftest import FakeDriver, FakeStore

RECEIVERS, THREADS, EACH = 10, 10, 200


class Crowd(Receiver[int]):
    """Is stored into by many threads."""

    def onStart(self) -> None:
        """Nothing to start."""

    def receive(self, index: int) -> None:
        """Store the numbers of one thread: singly, or in batches of seven."""
        numbers = range(index, THREADS * EACH, THREADS)
        if index % 2:
            for start in range(0, EACH, 7):
                self.store_all(numbers[start : start + 7])
        else:
            for number in numbers:
                self.store(number)


def test_ten_receivers_of_ten_threads_count_exactly(log: EventLog, driver: FakeDriver, store: FakeStore) -> None:
    receivers = [Crowd() for _ in range(RECEIVERS)]
    drivers: list[FakeDriver] = [type(driver)(type(log)()) for _ in receivers]
    stores: list[FakeStore] = [type(store)() for _ in receivers]
    settings = Settings.parse(
        {"spark.streaming.blockInterval": "5ms", "spark.penstock.receiver.maxBufferedRecords": "100"}
    )
    supervisors = [
        ReceiverSupervisor(
            receiver, RegisterReceiver(number, 1, "Crowd", 0), settings, drivers[number], stores[number], SystemClock()
        )
        for number, receiver in enumerate(receivers)
    ]
    for supervisor in supervisors:
        supervisor.start()
    with ThreadPoolExecutor(RECEIVERS * THREADS) as pool:
        storing = [pool.submit(receiver.receive, index) for receiver in receivers for index in range(THREADS)]
    for each in storing:
        each.result()
    for supervisor in supervisors:
        supervisor.stop("enough")
    for number, supervisor in enumerate(supervisors):
        kept = stores[number].kept
        stored = [record for block in drivers[number].blocks for record in kept[block.block_id].records()]
        assert sorted(stored) == list(range(THREADS * EACH))
        assert supervisor.state.stored_records == THREADS * EACH
        assert sum(block.num_records for block in drivers[number].blocks) == THREADS * EACH
