"""Receiver checks RC-43 and RC-44: columnar batches."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from penstock.spi import is_columnar
from penstock_testing.check import check, fail
from penstock_testing.feeder import Feeder
from penstock_testing.receiver_harness import ReceiverHarness
from penstock_testing.receiver_subject import ReceiverSubject


class ReceiverArrowChecks:
    """The checks of this module, as test methods."""

    @check("RC-43", "must", requires="arrow", change="build the columns with the types of the records")
    def test_RC_43_arrow_equals_rows(self, subject: ReceiverSubject) -> None:
        """The records read from columnar blocks equal those of the source in type and value.

        Purpose: a program must not depend on whether its receiver stores columns or records.
        Condition: at least one block is columnar; the records have the types and values of those that were put.
        """
        feeder = subject.feeder()
        records = [*feeder.sample(subject.rng, 20), *feeder.odd_records()]
        harness = _run(subject, feeder, [records])
        if not any(is_columnar(block.table) for block in harness.blocks):
            fail(
                "Capabilities.arrow is set, and no block comes from store_arrow",
                f"{len(records)} records",
                "store with store_arrow, or do not set Capabilities.arrow",
            )
        put, read = Counter(map(_typed, records)), Counter(map(_typed, harness.records))
        if put != read:
            fail(
                f"the blocks' records read as {list(read - put)[:3]}, and the source has {list(put - read)[:3]}",
                f"{len(records)} records",
            )

    @check("RC-44", "must", requires="arrow", change="declare the schema once instead of inferring it from each batch")
    def test_RC_44_schema_is_stable(self, subject: ReceiverSubject) -> None:
        """All columnar blocks of a receiver have one schema.

        Purpose: a batch with two schemas cannot become one DataFrame.
        Condition: the schemas of the columnar blocks are equal.
        """
        feeder = subject.feeder()
        odd = feeder.odd_records()
        harness = _run(subject, feeder, [*([record] for record in odd), feeder.sample(subject.rng, 20)])
        schemas = [block.table.schema for block in harness.blocks if is_columnar(block.table)]
        for number, schema in enumerate(schemas):
            if not schema.equals(schemas[0]):
                fail(
                    f"block {number} has the schema {_flat(schema)}, and block 0 has {_flat(schemas[0])}",
                    f"{number + 1} blocks",
                )


def _run(subject: ReceiverSubject, feeder: Feeder, parts: list[list[Any]]) -> ReceiverHarness:
    """Run a receiver and put the records part by part. A part follows once the earlier parts are stored."""
    harness = subject.run(subject.make(feeder))
    stored = 0
    for part in parts:
        feeder.put(part)
        stored += len(part)
        subject.until(lambda: harness.count >= stored, lambda: f"{harness.count} of {stored} records are stored")  # noqa: B023
    harness.stop()
    return harness


def _typed(record: Any) -> str:
    return f"{type(record).__name__} {record!r}"


def _flat(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)
