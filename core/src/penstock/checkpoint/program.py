"""``Program``: a streaming program and what it runs on, for the parts that checkpoint, restore and run it."""

from __future__ import annotations

from attrs import frozen
from pyspark import SparkContext

from penstock.conf import Settings
from penstock.graph.dstream_graph import DStreamGraph
from penstock.runtime.clock import Clock


@frozen
class Program:
    """A streaming program.

    Attributes:
        context: the StreamingContext, to which streams refer; a saved program contains a reference to it.
        sc: runs its Spark jobs.
        settings: the configuration in force.
        clock: gives the batch times.
        graph: the program's DStreams.
    """

    context: object
    sc: SparkContext
    settings: Settings
    clock: Clock
    graph: DStreamGraph
