"""How often the DataFrame of a batch calls the JVM: counted, not timed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession
from tests.helpers.frame_programs import FRUGAL
from tests.spark.test_calls_of_a_batch import Received, Silent, calls  # noqa: F401  # calls is a fixture

from penstock.graph.dstream import DStream
from penstock.graph.dstream_graph import DStreamGraph, GraphRuntime
from penstock.graph.input_dstreams import ReceiverInputDStream
from penstock.spark.cluster import use_this_python
from penstock_dataframes.plugin import dataframes

pytestmark = pytest.mark.spark

# What PySpark's public API makes for `mapInArrow`, for the program's operators and for `collect`.
MOST_CALLS_OF_A_FRAME = 46


def test_settled_dataframe_word_count_calls_the_jvm_for_its_operators_and_its_job(
    sc: SparkContext,
    tmp_path: Path,
    calls: list[str],  # noqa: F811
) -> None:
    use_this_python(sc)
    conf = SparkSession.builder.getOrCreate().conf
    for key, value in FRUGAL.items():
        conf.set(key, value)
    graph, found = DStreamGraph(sc, 1000), list[Any]()
    lines: DStream[str] = DStream(ReceiverInputDStream(graph, Silent()), cast(Any, None))
    words = dataframes(lines, None).selectExpr("explode(split(value, ' ')) AS word")
    words.groupBy("word").agg({"*": "count"}).foreachDataFrame(lambda df: found.append(sorted(df.collect())))
    lengths = dataframes(lines.map(lambda line: (line, len(line))), "line string, length double")
    lengths.foreachDataFrame(lambda df: found.append(sorted(df.collect())))
    graph.connect(GraphRuntime(received_blocks=cast(Any, Received(tmp_path, ["a b", "b"]))))
    graph.start(0)
    for job in graph.generate_jobs(1000):
        job.run()
    calls.clear()
    words_job, rows_job = graph.generate_jobs(2000)
    assert calls == []
    words_job.run()
    assert 0 < len(calls) <= MOST_CALLS_OF_A_FRAME, calls
    calls.clear()
    rows_job.run()
    assert 0 < len(calls) <= MOST_CALLS_OF_A_FRAME, calls
    for key in FRUGAL:
        conf.unset(key)
    assert found == 2 * [[("a", 1), ("b", 2)], [("a b", 3.0), ("b", 1.0)]]
