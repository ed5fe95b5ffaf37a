"""``StateErrors``: the errors of a program's state function, brought from the tasks to the driver.

A program may never read the partition in which its function failed (``pprint`` takes a few records only). The batch
fails all the same: tasks add their errors to an accumulator, and the driver raises them when a job ends.
"""

from __future__ import annotations

import threading
from typing import Any

from pyspark import Accumulator, SparkContext

from penstock.worker.state_elements import MergeReported, PartitionErrors, Reported

# Partitions whose errors were raised; a partition that is computed again reports them again.
_REMEMBERED = 10_000


class StateErrors:
    """The state function's errors of one stream.

    Args:
        sc: its tasks report the errors.
    """

    def __init__(self, sc: SparkContext) -> None:
        #: Sent with the tasks, which add to it.
        self.reported: Accumulator[Reported] = sc.accumulator({}, MergeReported())
        self._raised: dict[tuple[int, int], None] = {}
        self._lock = threading.Lock()

    def raise_new(self) -> None:
        """Raise the errors reported since the last call.

        Raises:
            StateUpdateError: a state function failed since then.
        """
        with self._lock:
            reported: Reported = self.reported.value
            new: list[Any] = [(partition, reported.pop(partition)) for partition in list(reported)]
            new = [(partition, errors) for partition, errors in new if partition not in self._raised]
            self._raised.update(dict.fromkeys(partition for partition, _errors in new))
            while len(self._raised) > _REMEMBERED:
                del self._raised[next(iter(self._raised))]
        if new:
            raise PartitionErrors.merged([errors for _partition, errors in new]).as_exception()
