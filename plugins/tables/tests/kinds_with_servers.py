"""``kind_of_table``: a table of any kind in a folder of its own, with its server; for programs that kill writers."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from plugins.tables.tests.kind_of_table import Kind
from tests.helpers.postgresql import PASSWORD, postgresql

from penstock_tables.sql_table import SqlTableSettings

#: The kind that needs a server.
POSTGRESQL = "postgresql"
_DATABASE, _VARIABLE = "shop", "PENSTOCK_TEST_PASSWORD"


@contextmanager
def kind_of_table(name: str) -> Iterator[Kind]:
    """A table of a kind, in a temporary folder; a PostgreSQL server runs meanwhile if it needs one."""
    with tempfile.TemporaryDirectory(prefix=f"penstock-{name}-") as folder:
        if name != POSTGRESQL:
            yield Kind(name, Path(folder))
            return
        with postgresql() as server:
            server.create_database(_DATABASE)
            yield Kind(name, Path(folder), table_of(server.url(_DATABASE, scheme="postgresql+psycopg")), server)


def table_of(url: str) -> SqlTableSettings:
    """The table of a PostgreSQL server; its password is in the environment of this process and of its children."""
    os.environ[_VARIABLE] = PASSWORD
    return SqlTableSettings(url, "orders", f"env:{_VARIABLE}")
