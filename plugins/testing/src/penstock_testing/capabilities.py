"""``Capabilities``: the optional abilities that a plugin declares. PK-14 checks the declaration."""

from __future__ import annotations

from typing import Any

import attrs


def _flag(kind: str, default: Any, meaning: str) -> Any:
    """A field of ``Capabilities``: the kind of plugin that has the ability, its default, and what it means."""
    return attrs.field(default=default, metadata={"kind": kind, "meaning": meaning})


@attrs.frozen(kw_only=True)
class Capabilities:
    """A plugin's optional abilities. A check that requires a flag which is not set is not applicable."""

    ordered: bool = _flag("receiver", True, "stores the records of a source in the order of the source.")
    acknowledged: bool = _flag(
        "receiver",
        False,
        "acknowledges a record to the source after it is stored; the source redelivers a record that was not "
        "acknowledged.",
    )
    replayable: bool = _flag(
        "receiver", False, "gives each block its position as metadata and, created from a position, continues there."
    )
    partitioned: bool = _flag("receiver", False, "several instances share the partitions of one source.")
    repeats_in_rebalance: bool = _flag(
        "receiver",
        False,
        "stores records again that were in flight when another instance joined or left.",
    )
    arrow: bool = _flag("receiver", False, "stores columnar batches.")
    bounded: bool = _flag("receiver", False, "ends its threads, or stops, at the end of the source.")
    drops: bool = _flag(
        "receiver",
        False,
        "drops records that cannot be stored fast enough, instead of blocking the source, and reports their number "
        'as an error, such as "3 records dropped".',
    )
    reconnects: bool = _flag("receiver", True, "connects again after the connection failed.")
    adapts: bool = _flag(
        "rate-estimator", True, "its rate follows the batches' processing delays; false for a constant rate."
    )
    restores: bool = _flag("rate-estimator", False, "has a ``state`` that survives a restart.")
    shares: bool = _flag("rate-estimator", True, "several instances share one capacity.")
    min_rate: float = _flag(
        "rate-estimator", 1e-5, "the lowest answer, records/s. The default is about one record a day."
    )
    max_rate: float = _flag(
        "rate-estimator", 2.0**53, "the highest answer, records/s. The default is 2^53: above it a float loses records."
    )
    queues: bool = _flag("listener", False, "handles events on a thread of its own, from a bounded queue.")
    serves: bool = _flag("listener", False, "opens a port.")
    exports: bool = _flag("listener", False, "sends data to a backend.")

    @classmethod
    def kind_of(cls, flag: str) -> str:
        """The kind of plugin that a flag belongs to."""
        return str(attrs.fields_dict(cls)[flag].metadata["kind"])
