"""The arguments of a page's address, parsed defensively, and tables split into pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

from attrs import evolve, field, frozen

T = TypeVar("T")

_LONGEST_TEXT = 100
# A larger number cannot be a batch time, a stream or a page.
_LARGEST = 10**15


@frozen
class Query:
    """The arguments that pages understand; others are ignored.

    Attributes:
        id: a batch time or a stream id; ``None`` when missing or not a number.
        page: page of a table, from 1.
        sort: column of a table.
        descending: whether the order is descending; ``None`` for the table's default.
        show: which rows to show.
        text: only rows that contain this text.
        first: time of the first batch, ms; 0 for any.
        last: time of the last batch, ms; 0 for any.
        rows: batches in the Gantt chart; 0 for the default.
    """

    id: int | None = None
    page: int = 1
    sort: str = ""
    descending: bool | None = None
    show: str = ""
    text: str = ""
    first: int = 0
    last: int = 0
    rows: int = 0

    @classmethod
    def of(cls, arguments: Mapping[str, Sequence[bytes]]) -> Query:
        """Read the arguments of a request; an invalid argument counts as missing."""
        order = _text(arguments, "order")
        return cls(
            id=_number(arguments, "id"),
            page=max(_number(arguments, "page") or 1, 1),
            sort=_text(arguments, "sort"),
            descending={"desc": True, "asc": False}.get(order),
            show=_text(arguments, "show"),
            text=_text(arguments, "q"),
            first=_number(arguments, "from") or 0,
            last=_number(arguments, "to") or 0,
            rows=_number(arguments, "rows") or 0,
        )

    def address(self) -> str:
        """The address of these arguments, relative to the page."""
        arguments = {
            "id": "" if self.id is None else self.id,
            "q": self.text,
            "show": self.show,
            "from": self.first or "",
            "to": self.last or "",
            "sort": self.sort,
            "order": {True: "desc", False: "asc", None: ""}[self.descending],
            "page": self.page if self.page > 1 else "",
            "rows": self.rows or "",
        }
        return "?" + urlencode({name: value for name, value in arguments.items() if value != ""})


def _text(arguments: Mapping[str, Sequence[bytes]], name: str) -> str:
    values = arguments.get(name) or [b""]
    text = values[-1].decode("utf-8", "replace")[:_LONGEST_TEXT]
    return "".join(character for character in text if character.isprintable()).strip()


def _number(arguments: Mapping[str, Sequence[bytes]], name: str) -> int | None:
    text = _text(arguments, name)
    return int(text) if text.isascii() and text.isdigit() and int(text) <= _LARGEST else None


@frozen
class Table(Generic[T]):
    """One page of a sorted table, with the addresses of the others.

    Attributes:
        rows: the rows on this page.
        total: number of rows on all pages.
        page: this page, from 1.
        size: number of rows on a page.
        query: arguments of the page's address.
        sort: the column that sorts it.
        descending: order.
    """

    rows: Sequence[T]
    total: int
    page: int
    size: int
    query: Query = field(factory=Query)
    sort: str = ""
    descending: bool = False

    @property
    def pages(self) -> int:
        """The number of pages."""
        return max(-(-self.total // self.size), 1)

    @property
    def first(self) -> int:
        """Number of the first row, from 1."""
        return min((self.page - 1) * self.size + 1, self.total)

    @property
    def last(self) -> int:
        """Number of the last row."""
        return min(self.page * self.size, self.total)

    def at(self, page: int) -> str:
        """The address of another page."""
        return evolve(self.query, page=page).address()

    def sorted_by(self, column: str) -> str:
        """The address of the table sorted by a column; sorting by the same column again reverses the order."""
        descending = not self.descending if column == self.sort else True
        return evolve(self.query, page=1, sort=column, descending=descending).address()


def tabulate(
    rows: Iterable[T], query: Query, keys: Mapping[str, Callable[[T], Any]], size: int, *, descending: bool
) -> Table[T]:
    """Sort rows and cut out a page.

    Args:
        rows: all rows.
        query: the page and the order. The default column is the first key; a page beyond the end means the last page.
        keys: sort keys by column; ``None`` sorts as the smallest.
        size: rows per page.
        descending: the default order.
    """
    column = query.sort if query.sort in keys else next(iter(keys))
    down = descending if query.descending is None else query.descending
    key = keys[column]

    def ordering(row: T) -> tuple[bool, Any]:
        value = key(row)
        return value is not None, value if value is not None else 0

    ordered = sorted(rows, key=ordering, reverse=down)
    page = min(query.page, max(-(-len(ordered) // size), 1))
    return Table(ordered[(page - 1) * size : page * size], len(ordered), page, size, query, column, down)
