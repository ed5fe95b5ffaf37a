"""Decides what becomes of delivered entries: stored, moved to the dead-letter stream, or left pending."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from attrs import field, frozen

from penstock.spi import text_of
from penstock_brokers import DeadLetter, readable
from penstock_redis.options import RedisOptions
from penstock_redis.stream_entries import Delivery, Entry, column_reader


@frozen
class GivenUp:
    """An entry that moves to the dead-letter stream.

    Attributes:
        entry_id: id of the entry in its own stream.
        fields: names and values, alternating, of the entry in the dead-letter stream.
        letter: why it is given up.
    """

    entry_id: bytes
    fields: Sequence[bytes | str] = field(repr=False)
    letter: DeadLetter


@frozen
class SortedDelivery:
    """The entries of a delivery, by what becomes of them.

    Attributes:
        stream: name of the stream.
        tables: the entries to store.
        stored_ids: their ids.
        trimmed: ids without an entry, to acknowledge as well.
        given_up: the entries to move to the dead-letter stream.
        left: id and error of each entry that cannot be decoded and stays pending, because there is no such stream.
    """

    stream: bytes
    tables: list[pa.Table] = field(repr=False)
    stored_ids: list[bytes]
    trimmed: Sequence[bytes]
    given_up: list[GivenUp]
    left: dict[bytes, ValueError]

    @property
    def message(self) -> str:
        """The report about entries that are not stored; empty if there are none."""
        name = self.stream.decode()
        if self.left:
            first_id, error = next(iter(self.left.items()))
            return (
                f"{len(self.left)} entries of stream {name!r} cannot be decoded and stay pending: the option "
                f"dead_letter moves such entries to another stream. The first is {first_id.decode()}: {text_of(error)}"
            )
        if self.given_up:
            letter = self.given_up[0].letter
            return (
                f"{len(self.given_up)} entries of stream {name!r} moved to the dead-letter stream. The first is "
                f"{letter.origin}: {letter.error}"
            )
        return ""


def sort(delivery: Delivery, options: RedisOptions) -> SortedDelivery:
    """Decide on each entry of a delivery."""
    exhausted = {entry_id for entry_id, count in delivery.counts.items() if options.is_exhausted(count)}
    usable = delivery.entries if not exhausted else [entry for entry in delivery.entries if entry[0] not in exhausted]
    tables, errors = readable(usable, column_reader(delivery, options))
    undecodable = {usable[position][0]: error for position, error in errors.items()}
    unstored = exhausted | undecodable.keys()
    stored_ids = [entry_id for entry_id in delivery.ids if entry_id not in unstored]
    given_up, left = list[GivenUp](), undecodable
    if options.dead_letter:
        rest = [entry for entry in delivery.entries if entry[0] in unstored]
        given_up, left = [_given_up(delivery, entry, options, undecodable.get(entry[0])) for entry in rest], {}
    return SortedDelivery(delivery.stream, tables, stored_ids, delivery.trimmed, given_up, left)


def _given_up(delivery: Delivery, entry: Entry, options: RedisOptions, error: ValueError | None) -> GivenUp:
    entry_id, fields = entry
    letter = DeadLetter(
        "deliveries" if error is None else "undecodable",
        f"delivered more than {options.max_deliveries} times" if error is None else text_of(error),
        delivery.counts.get(entry_id, 1),
        f"{delivery.stream.decode()}/{entry_id.decode()}",
    )
    return GivenUp(entry_id, [*fields, *(text for pair in letter.headers().items() for text in pair)], letter)
