"""Every output reports why the blocks of its batch are not available."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import pytest

from penstock import Receiver, StreamingContext, StreamInputInfo
from penstock.errors import BatchFailedError
from penstock.graph.dstream import DStream
from penstock.graph.dstream_graph import GraphRuntime
from penstock.graph.input_dstreams import ReceiverInputDStream
from penstock.schedule.input_info_tracker import InputInfoTracker
from penstock.spark.rdds import LocatedPartition
from penstock.wire.token import Token
from penstock.worker.block_reader import ReadBlocks

if TYPE_CHECKING:
    from tests.helpers.fake_graph import FakeContext


class Silent(Receiver[Any]):
    def onStart(self) -> None:
        """Receives nothing."""


class Unavailable:
    reader = ReadBlocks(Token("t"))

    def input_info(self, batch_time_ms: int, stream_id: int) -> StreamInputInfo:
        return StreamInputInfo(stream_id, 5)

    def partitions(self, batch_time_ms: int, stream_ids: Sequence[int], slots: int) -> list[LocatedPartition]:
        raise ConnectionError("the JVM does not answer")


def test_every_output_fails_with_the_error_of_its_input(context: FakeContext) -> None:
    context.graph.connect(
        GraphRuntime(received_blocks=cast(Any, Unavailable()), report_input=InputInfoTracker().report)
    )
    stream: DStream[Any] = DStream(ReceiverInputDStream(context.graph, Silent()), cast(StreamingContext, context))
    for _ in range(2):
        stream.foreachRDD(print)
    context.graph.start(0)
    for job in context.graph.generate_jobs(100):
        with pytest.raises(BatchFailedError, match="the JVM does not answer"):
            job.run()
