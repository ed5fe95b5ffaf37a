"""Tasks that read DataFrames import nothing of the driver side: it would cost each worker 0.3 s."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark import cloudpickle
from tests.graph.test_worker_imports import imports_of_a_worker

from penstock.wire.token import Token
from penstock.worker.block_reader import ReadBlocks, ReadPartition
from penstock_dataframes.aggregation import Aggregate, Aggregation, CombinedAggregates, PartialAggregates
from penstock_dataframes.column_batches import serialized
from penstock_dataframes.map_batches import MapBatches
from penstock_dataframes.read_arrow import ReadColumns, ReadRows


def test_tasks_of_dataframes_import_nothing_of_the_driver_side(tmp_path: Path) -> None:
    blocks = ReadPartition(ReadBlocks(Token.generate()))
    functions = [
        ReadColumns(blocks, pa.schema([]), is_declared=True, are_values=False, is_grouped=False),
        ReadRows(blocks, pa.schema([]), are_values=False, is_grouped=False),
    ]
    pickled = [("toDF", cloudpickle.dumps(function)) for function in functions]
    counts = Aggregation(("value",), (Aggregate.of("count", "*", "count"),))
    operators = [MapBatches(list, "mapInArrow"), PartialAggregates(counts), CombinedAggregates(counts), serialized]
    pickled += [("columns", cloudpickle.dumps(function)) for function in operators]
    assert imports_of_a_worker(pickled, tmp_path) == ""
