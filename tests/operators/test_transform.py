"""``transform``: whatever a function makes of the RDD."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import DStream

pytestmark = pytest.mark.spark


def test_a_function_makes_the_rdd(run_all: Any) -> None:
    def of_the_jvm(stream: DStream[Any]) -> DStream[Any]:
        return stream.transform(lambda rdd: rdd.cartesian(rdd)).map(lambda pair: pair[0] + pair[1])

    def but_the_second(stream: DStream[Any]) -> DStream[Any]:
        return stream.transform(lambda time, rdd: None if time.timestamp() == 2 else rdd).map(lambda n: -n)

    operations = {
        "more": lambda stream: stream.transform(lambda rdd: rdd.map(str).union(rdd.context.parallelize(["!"]))),
        "with the time": lambda stream: stream.transform(lambda time, rdd: rdd.map(lambda n: (time.timestamp(), n))),
        "of pairs in the JVM": of_the_jvm,
        "None leaves the batch out": but_the_second,
    }
    found = run_all(operations, [[1, 2], [], [3]], sort=False)
    found["of pairs in the JVM"][0].sort()
    assert found == {
        "more": [["1", "2", "!"], ["!"], ["3", "!"]],
        "with the time": [[(1.0, 1), (1.0, 2)], [], [(3.0, 3)]],
        "of pairs in the JVM": [[2, 3, 3, 4], [], [6]],
        "None leaves the batch out": [[-1, -2], [-3]],
    }
