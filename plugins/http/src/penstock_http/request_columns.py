"""The columns of the records of requests. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
from attrs import field, frozen

from penstock.spi import printable
from penstock_brokers import ValueAs, decode

# Headers with credentials, which must not get into blocks.
_CREDENTIALS = frozenset({"authorization", "proxy-authorization", "cookie"})


@frozen
class RequestDetails:
    """The columns that all records of a request share.

    Attributes:
        method: method of the request.
        path: decoded, without the query.
        query: query of the address, without the question mark.
        headers: in their order.
        remote: address of the sender, or of a proxy before it.
        arrived_us: microseconds since the epoch.
    """

    method: str
    path: str
    query: str
    headers: Sequence[tuple[str, str]] = field(repr=False)
    remote: str
    arrived_us: int


#: Column but ``value`` → its type, and its value for a request.
_DETAILS: Mapping[str, tuple[pa.DataType, Callable[[RequestDetails], Any]]] = {
    "method": (pa.string(), lambda request: request.method),
    "path": (pa.string(), lambda request: printable(request.path)),
    "query": (pa.string(), lambda request: printable(request.query)),
    "headers": (pa.map_(pa.string(), pa.string()), lambda request: request.headers),
    "remote": (pa.string(), lambda request: request.remote),
    "timestamp": (pa.timestamp("us", "UTC"), lambda request: request.arrived_us),
}


def shown_headers(headers: Mapping[str, str], hidden: str) -> list[tuple[str, str]]:
    """The headers to store: names in lower case, without those that contain credentials.

    Args:
        headers: headers of a request.
        hidden: name of a further header with a credential.
    """
    left_out = _CREDENTIALS | {hidden.lower()}
    pairs = ((name.lower(), value) for name, value in headers.items())
    return [(printable(name), printable(value)) for name, value in pairs if name not in left_out]


def table_of(
    requests: Sequence[tuple[RequestDetails, Sequence[bytes]]], columns: Sequence[str], value_as: ValueAs
) -> pa.Table:
    """The records of requests, in order.

    Args:
        requests: each with its records.
        columns: names of the columns.
        value_as: form of the records, which were checked for it.
    """
    rows = pa.array(
        chain.from_iterable([number] * len(records) for number, (_, records) in enumerate(requests)), pa.int32()
    )
    arrays: dict[str, pa.Array] = {}
    for name in columns:
        if name == "value":
            values = [record for _, records in requests for record in records]
            arrays[name] = decode(values, "bytes" if value_as == "bytes" else "text")
        else:
            kind, value_of = _DETAILS[name]
            arrays[name] = pa.array([value_of(details) for details, _ in requests], kind).take(rows)
    return pa.table(arrays)
