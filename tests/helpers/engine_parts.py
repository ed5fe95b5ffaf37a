"""Parts of the engine that the tests of plugins for DataFrames and state use, and these plugins do not.

They stand here in one list, so that the plugins' tests show what they need beyond the public names.
"""

from penstock.blocks import arrow_form as arrow_form
from penstock.checkpoint.program import load_program as load_program, save_program as save_program
from penstock.errors import BatchFailedError as BatchFailedError
from penstock.graph import batch_input as batch_input
from penstock.graph.dstream_graph import GraphRuntime as GraphRuntime
from penstock.graph.input_dstreams import (
    PulledInputDStream as PulledInputDStream,
    ReceiverInputDStream as ReceiverInputDStream,
)
from penstock.graph.outputs import Job as Job
from penstock.graph.windows import WindowedDStream as WindowedDStream
from penstock.spark.rdds import BlocksRDD as BlocksRDD, LocatedPartition as LocatedPartition
from penstock.track.batch_partitions import PartitionBounds as PartitionBounds, partitions_of as partitions_of
from penstock.worker import functions as functions
from penstock.worker.fused import FusedChain as FusedChain, Step as Step
