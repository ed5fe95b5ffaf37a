"""``foreachRDD``: an output operation."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

import pytest

from penstock import DStream
from penstock.errors import BatchFailedError

pytestmark = pytest.mark.spark


def test_a_function_is_given_the_rdd_and_the_time_if_it_takes_it(run_outputs: Any) -> None:
    seen: list[Any] = []

    class Method:
        def __call__(self, rdd: Any) -> None:
            seen.append(("object", rdd.collect()))

        def with_time(self, time: datetime, rdd: Any) -> None:
            seen.append(("method", time.timestamp(), rdd.collect()))

    def program(stream: DStream[Any]) -> None:
        stream.foreachRDD(lambda rdd: seen.append(("function", rdd.collect())))
        stream.foreachRDD(Method())
        stream.foreachRDD(Method().with_time)
        stream.foreachRDD(partial(lambda name, time, rdd: seen.append((name, time.timestamp())), "partial"))

    run_outputs(program, [[1], [2]])
    assert seen == [
        *(("function", [1]), ("object", [1]), ("method", 1.0, [1]), ("partial", 1.0)),
        *(("function", [2]), ("object", [2]), ("method", 2.0, [2]), ("partial", 2.0)),
    ]


def test_a_stop_iteration_fails_the_batch(run_outputs: Any) -> None:
    def program(stream: DStream[Any]) -> None:
        stream.foreachRDD(lambda _rdd: next(iter(())))

    with pytest.raises(BatchFailedError, match="StopIteration"):
        run_outputs(program, [[1]])
