"""The example ``webhook_payments.py`` with a PostgreSQL server, which takes seconds to start."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.examples.test_webhook_structured import post
from tests.helpers import wait_for
from tests.helpers.postgresql import PASSWORD, postgresql

from penstock_brokers import free_port

if TYPE_CHECKING:
    from tests.examples.conftest import RunExample, Running

pytestmark = pytest.mark.spark


def test_payments_are_in_the_table_once_and_others_are_dead_letters(run_example: RunExample, tmp_path: Path) -> None:
    # Python workers that run already have the environment of their start.
    (tmp_path / "password").write_text(PASSWORD)
    secret = {"env:PAYMENTS_PASSWORD": f"file:{tmp_path / 'password'}"}
    port = free_port()
    payments = [{"id": number, "payer": f"payer {number}", "cents": 100 * number} for number in range(5)]
    with postgresql() as server:
        server.create_database("shop")

        def act(_example: Running) -> None:
            assert post(port, json.dumps(payments[:3]).encode(), "/payments") == 200
            assert post(port, json.dumps(payments[3]).encode(), "/payments") == 200
            assert post(port, b"no json", "/payments") == 400
            assert post(port, b'{"id": 9, "payer": "somebody", "cents": "many"}', "/payments") == 200
            assert post(port, json.dumps(payments[4]).encode(), "/payments") == 200

            def are_written() -> bool:
                with closing(server.connect("shop")) as connection:
                    if connection.execute("SELECT to_regclass('payments')").fetchone() == (None,):
                        return False
                    rows = connection.execute("SELECT id, payer, cents FROM payments ORDER BY id").fetchall()
                return rows == [tuple(payment.values()) for payment in payments]

            wait_for(are_written, "all payments are in the table")

        url = server.url("shop", scheme="postgresql+psycopg")
        run_example("webhook_payments", port, url, tmp_path, act=act, replace=secret)
    (letter,) = [line for path in tmp_path.glob("dead-letters/*/*") for line in path.read_text().splitlines()]
    assert json.loads(letter)["record"]["id"] == 9
