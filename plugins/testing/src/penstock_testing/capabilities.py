"""``Capabilities``: the optional abilities that a plugin declares. PK-14 checks the declaration."""

from __future__ import annotations

import re

from attrs import frozen


@frozen(kw_only=True)
class Capabilities:
    """A plugin's optional abilities. A check that requires a flag which is not set is not applicable.

    Attributes:
        ordered: receiver: stores the records of a source in the order of the source.
        acknowledged: receiver: acknowledges a record to the source after it is stored; the source redelivers a record
            that was not acknowledged.
        replayable: receiver: gives each block its position as metadata and, created from a position, continues there.
        partitioned: receiver: several instances share the partitions of one source.
        arrow: receiver: stores columnar batches.
        bounded: receiver: ends its threads, or stops, at the end of the source.
        drops: receiver: drops records that cannot be stored fast enough, instead of blocking the source, and reports
            their number as an error, such as "3 records dropped".
        reconnects: receiver: connects again after the connection failed.
        adapts: rate estimator: its rate follows the batches' processing delays; false for a constant rate.
        restores: rate estimator: has a ``state`` that survives a restart.
        shares: rate estimator: several instances share one capacity.
        min_rate: rate estimator: the lowest answer, records/s. The default is about one record a day.
        max_rate: rate estimator: the highest answer, records/s. The default is 2^53: above it a float loses records.
        queues: listener: handles events on a thread of its own, from a bounded queue.
        serves: listener: opens a port.
        exports: listener: sends data to a backend.
        durable: block store: an acknowledged block survives the death of the process and of the host.
        verified: block store: detects every changed bit of a block when it is read.
        located: block store: names the hosts that have a block.
    """

    ordered: bool = True
    acknowledged: bool = False
    replayable: bool = False
    partitioned: bool = False
    arrow: bool = False
    bounded: bool = False
    drops: bool = False
    reconnects: bool = True
    adapts: bool = True
    restores: bool = False
    shares: bool = True
    min_rate: float = 1e-5
    max_rate: float = 2.0**53
    queues: bool = False
    serves: bool = False
    exports: bool = False
    durable: bool = False
    verified: bool = False
    located: bool = False

    @classmethod
    def kind_of(cls, flag: str) -> str:
        """The kind of plugin that a flag belongs to, as its documentation above says."""
        found = re.search(rf"^ +{flag}: ([a-z ]+):", cls.__doc__ or "", re.MULTILINE)
        return found[1].replace(" ", "-") if found else ""
