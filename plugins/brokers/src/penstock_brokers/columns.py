"""The columns in which a receiver stores messages: the option that chooses them, and the reader that makes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import attrs
import pyarrow as pa
from attrs import field, frozen

M = TypeVar("M")


def columns_option(default: Sequence[str], meanings: Mapping[str, str]) -> Any:
    """The field of the option ``columns``, whose type is ``tuple[Literal["key", "value", …], ...]``.

    Args:
        default: the columns unless the option is given.
        meanings: column → what it contains, for the help.
    """
    listed = "; ".join(f"`{name}`: {meaning}" for name, meaning in meanings.items())
    help = f"columns to store; one column reads as plain values, several as rows. {listed}"
    return field(default=tuple(default), validator=_are_columns, metadata={"help": help})


def _are_columns(_options: object, attribute: attrs.Attribute[Any], value: Sequence[str]) -> None:
    if not value:
        raise ValueError(f"{attribute.name} must name at least one column")
    if twice := next((name for name in value if value.count(name) > 1), None):
        raise ValueError(f"{attribute.name} names {twice!r} twice")


@frozen
class ColumnReader(Generic[M]):
    """Makes Arrow tables of messages.

    Attributes:
        columns: the columns to make.
        arrays: column → function that makes its array from messages, or raises ``ValueError``.
    """

    columns: Sequence[str]
    arrays: Mapping[str, Callable[[Sequence[M]], pa.Array]] = field(repr=False)

    def __call__(self, messages: Sequence[M]) -> pa.Table:
        """Return the messages as a table.

        Raises:
            ValueError: a message cannot be decoded.
        """
        return pa.table({name: self.arrays[name](messages) for name in self.columns})
