"""What is compared: Penstock, its peers, and the limits that no streaming engine can pass."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

_UNIX_SOCKETS = {"spark.python.unix.domain.socket.enabled": "true"}


@frozen
class Engine:
    """One contestant.

    Attributes:
        name: on the command line and in results.
        title: in tables.
        program: module that runs its tasks.
        settings: fields of its tasks that every row gets.
        requires: package that may be absent.
        is_peer: whether others would choose it in Penstock's place.
    """

    name: str
    title: str
    program: str
    settings: Mapping[str, Any] = field(factory=dict)
    requires: str = ""
    is_peer: bool = True

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
            "structured-penstock",
            "Structured Streaming, Penstock source",
            _STRUCTURED,
            {"source": "penstock", "conf": _UNIX_SOCKETS},
            is_peer=False,
        ),
        Engine("structured-socket", "Structured Streaming, socket source", _STRUCTURED, {"source": "socket"}),
        Engine(
            "bare-structured",
            "limit: Structured Streaming, lines in the tasks' memory",
            _STRUCTURED,
            {"source": "memory", "conf": _UNIX_SOCKETS},
            is_peer=False,
        ),
        Engine("bytewax", "Bytewax", "benchmarks.programs.bytewax_flow", requires="bytewax"),
        Engine("bare-python", "limit: a loop in one Python process", _BARE, {"library": "python"}, is_peer=False),
        Engine(
            "bare-spark",
            "limit: a bare Spark job of one stage",
            _BARE,
            {"library": "pyspark", "conf": _UNIX_SOCKETS},
            is_peer=False,
        ),
        Engine(
            "bare-rows",
            "limit: a bare Spark job each interval, beside a process that writes the Arrow files",
            _BARE_FILES,
            {"api": "rows", "conf": _UNIX_SOCKETS},
            is_peer=False,
        ),
        Engine(
            "bare-dataframe",
            "limit: a bare DataFrame query each interval, beside a process that writes the Arrow files",
            _BARE_FILES,
            {"api": "dataframe", "conf": _UNIX_SOCKETS},
            is_peer=False,
        ),
    )
}

#: What the ratios of a table compare with the others.
OURS = ("penstock", "penstock-dataframe", "structured-penstock")
