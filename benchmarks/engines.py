"""The engines of the comparison: Penstock, its peers, and the limits that no streaming engine can exceed."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

_UNIX_SOCKETS = {"spark.python.unix.domain.socket.enabled": "true"}


@frozen
class Engine:
    """One engine of the comparison.

    Attributes:
        name: on the command line and in results.
        title: in tables and plots.
        program: module that runs its tasks.
        settings: fields of its tasks in every row.
        requires: an optional package that it needs.
        is_peer: whether it is an alternative to Penstock.
        work: for a limit, the work that it does; empty for the others.
    """

    name: str
    title: str
    program: str
    settings: Mapping[str, Any] = field(factory=dict)
    requires: str = ""
    is_peer: bool = True
    work: str = ""

    @property
    def reason_not_available(self) -> str:
        """Why it cannot run here; empty if it can."""
        if self.requires and importlib.util.find_spec(self.requires) is None:
            return f"the package {self.requires} is not installed: make bench installs it"
        return ""


_DSTREAMS = "benchmarks.programs.dstreams"
_STRUCTURED = "benchmarks.programs.structured"
_BARE = "benchmarks.programs.bare"
_BARE_FILES = "benchmarks.programs.bare_files"

ENGINES: dict[str, Engine] = {
    engine.name: engine
    for engine in (
        Engine("penstock", "Penstock", _DSTREAMS, {"library": "penstock", "conf": _UNIX_SOCKETS}, is_peer=False),
        Engine(
            "penstock-dataframe",
            "Penstock, DataFrames",
            _DSTREAMS,
            {"library": "penstock", "api": "dataframe", "conf": _UNIX_SOCKETS},
            is_peer=False,
        ),
        Engine(
            "penstock-arrow",
            "Penstock, Arrow",
            _DSTREAMS,
            {"library": "penstock", "api": "arrow", "conf": _UNIX_SOCKETS},
            is_peer=False,
        ),
        Engine("pyspark", "`pyspark.streaming`", _DSTREAMS, {"library": "pyspark.streaming"}),
        Engine(
            "pyspark-unix",
            "`pyspark.streaming`, Unix sockets",
            _DSTREAMS,
            {"library": "pyspark.streaming", "conf": _UNIX_SOCKETS},
        ),
        Engine(
            "structured-python",
            "Structured Streaming, Python data source",
            _STRUCTURED,
            {"source": "python", "conf": _UNIX_SOCKETS},
        ),
        Engine(
            "structured-arrow",
            "Structured Streaming, Arrow data source",
            _STRUCTURED,
            {"source": "arrow", "conf": _UNIX_SOCKETS},
        ),
        Engine(
            "structured-penstock",
            "Structured Streaming, Penstock source",
            _STRUCTURED,
            {"source": "penstock", "conf": _UNIX_SOCKETS},
            is_peer=False,
        ),
        Engine("structured-socket", "Structured Streaming, socket source", _STRUCTURED, {"source": "socket"}),
        Engine(
            "bare-structured",
            "limit: Structured Streaming, no source",
            _STRUCTURED,
            {"source": "memory", "conf": _UNIX_SOCKETS},
            is_peer=False,
            work="the same query over lines that are in the tasks' memory",
        ),
        Engine("bytewax", "Bytewax", "benchmarks.programs.bytewax_flow", requires="bytewax"),
        Engine(
            "bare-python",
            "limit: bare Python loop",
            _BARE,
            {"library": "python"},
            is_peer=False,
            work="a loop in one Python process reads the socket and computes",
        ),
        Engine(
            "bare-spark",
            "limit: bare Spark job",
            _BARE,
            {"library": "pyspark", "conf": _UNIX_SOCKETS},
            is_peer=False,
            work="one Spark job of one stage for each interval, with data from the driver",
        ),
        Engine(
            "bare-rows",
            "limit: bare Spark jobs on files",
            _BARE_FILES,
            {"api": "rows", "conf": _UNIX_SOCKETS},
            is_peer=False,
            work="one Spark job for each interval, beside a process that writes what the socket sends to Arrow files",
        ),
        Engine(
            "bare-dataframe",
            "limit: bare DataFrames on files",
            _BARE_FILES,
            {"api": "dataframe", "conf": _UNIX_SOCKETS},
            is_peer=False,
            work="the same with one DataFrame query",
        ),
        Engine(
            "bare-kernels",
            "limit: bare Arrow kernels on files",
            _BARE_FILES,
            {"api": "arrow"},
            is_peer=False,
            work="the same with a loop of Arrow kernels in one process per slot, without Spark",
        ),
    )
}

#: The engines that the ratios of a table compare with the others.
OURS = ("penstock", "penstock-dataframe", "penstock-arrow", "structured-penstock")
