"""The trace contexts of messages, which a batch's span links to. Executors import this module.

A message carries its context in the header ``traceparent`` of W3C Trace Context. It is looked for in the headers that
the receiver stores as a column, in one pass over a block in Arrow's code.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

#: Messages of a block that are searched, the first ones.
SEARCHED = 1000
#: Trace contexts that are taken from a block.
MOST_PER_BLOCK = 8

# Names that receivers give to the column of headers: "properties" is MQTT's.
_COLUMNS = ("headers", "properties")
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
# Only a sampled trace, whose flags are odd, has a span to link to.
_SAMPLED = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f][13579bdf](-.*)?")
_LENGTH = 55


def traceparents_of(table: pa.Table) -> tuple[str, ...]:
    """The distinct contexts of sampled traces in the headers of a block's first messages, in their order.

    Args:
        table: the block. Headers are a map, or a list of structs ``key`` and ``value``; other columns have none.
    """
    found: dict[str, None] = {}
    for name in _COLUMNS:
        if name in table.column_names:
            for value in _values(table[name].slice(0, SEARCHED)):
                text = value.decode("ascii", "replace")
                if _SAMPLED.fullmatch(text):
                    found[text[:_LENGTH]] = None
                if len(found) == MOST_PER_BLOCK:
                    return tuple(found)
    return tuple(found)


def _values(headers: pa.ChunkedArray) -> list[bytes]:
    """The values of all headers ``traceparent``; none of a column that has no headers."""
    values: list[bytes] = []
    for chunk in headers.chunks:
        try:
            names, texts = chunk.cast(_HEADERS).flatten().flatten()
        except pa.ArrowException:
            return []
        is_context = pc.fill_null(pc.equal(pc.ascii_lower(names), "traceparent"), False)
        values += filter(None, texts.filter(is_context).to_pylist())
    return values
