"""Outputs that write each batch of a stream into a table once: Delta, Iceberg, SQL, files.

Each function takes a ``DStream`` or a ``DataFrameStream`` first, and is an output operation::

    from penstock_tables import to_delta

    to_delta(lines.toDF(), "/data/lines")

A batch that runs again, after a failure or a recovery, is recognized by the application's name, the output's name, the
run and the batch time, which the table saves in the transaction that adds the batch's rows.
"""

from penstock_tables.batch_identity import OutputOwnedError, UnknownBatchError
from penstock_tables.output_functions import to_delta, to_files, to_iceberg, to_sql
from penstock_tables.row_fitting import RowsRefusedError
from penstock_tables.table import CommitConflictError, TableWriteError
from penstock_tables.table_schemas import TableSchemaError

__all__ = [
    "CommitConflictError",
    "OutputOwnedError",
    "RowsRefusedError",
    "TableSchemaError",
    "TableWriteError",
    "UnknownBatchError",
    "to_delta",
    "to_files",
    "to_iceberg",
    "to_sql",
]
