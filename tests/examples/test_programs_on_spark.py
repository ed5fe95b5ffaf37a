"""The programs in ``examples``, each run on Spark with a small input; what they print is compared."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from tests.examples.conftest import RunExample, Running
from tests.helpers import wait_for
from tests.helpers.line_server import LineServer

pytestmark = pytest.mark.spark


def test_network_wordcount_counts_the_words_of_a_server(run_example: RunExample, server: LineServer) -> None:
    def act(example: Running) -> None:
        with server.accept() as connection:
            connection.sendall("to be or not to be naïve\n".encode())
            example.until_lines("('to', 2)", "('be', 2)", "('or', 1)", "('not', 1)", "('naïve', 1)")

    run_example("network_wordcount", *server.address, act=act)


def test_stateful_wordcount_adds_to_earlier_counts(run_example: RunExample, server: LineServer) -> None:
    def act(example: Running) -> None:
        with server.accept() as connection:
            connection.sendall(b"to be or not to be\n")
            example.until_lines("most frequent: [('be', 2), ('to', 2), ('not', 1), ('or', 1)]")
            connection.sendall(b"not to say\n")
            example.until_lines("most frequent: [('to', 3), ('be', 2), ('not', 2), ('or', 1), ('say', 1)]")

    run_example("stateful_wordcount", *server.address, act=act, interval_s=0.5)


# tests/faults/kills/test_examples.py kills it and runs it again.
def test_recoverable_wordcount_counts_since_its_first_start(
    run_example: RunExample, server: LineServer, tmp_path: Path
) -> None:
    def act(example: Running) -> None:
        with server.accept() as connection:
            connection.sendall(b"a rose is a rose\n")
            example.until_lines("('a', 2)", "('rose', 2)", "('is', 1)")
            connection.sendall(b"a tulip\n")
            example.until_lines("('a', 3)", "('tulip', 1)")

    run_example("recoverable_wordcount", *server.address, tmp_path / "checkpoint", act=act)


def test_top_words_forgets_what_left_the_window(run_example: RunExample, server: LineServer) -> None:
    def act(example: Running) -> None:
        with server.accept() as connection:
            connection.sendall(b"b a c\n")
            example.until_lines("      1 a", "      1 b", "      1 c")
            connection.sendall(b"d d\n")
            example.until_lines("      2 d")
            assert "      1 d" not in example.lines
            wait_for(lambda: re.fullmatch(r"\d\d:\d\d:\d\d", example.lines[-1]), "an empty window")

    run_example(
        "top_words",
        *server.address,
        act=act,
        replace={"WINDOW_S, SLIDE_S = 3, 30, 5": "WINDOW_S, SLIDE_S = 3, 1.2, 0.4"},
    )


def test_join_table_prices_orders_and_leaves_out_unknown_products(run_example: RunExample, server: LineServer) -> None:
    def act(example: Running) -> None:
        with server.accept() as connection:
            connection.sendall(b"tea 2\ncoffee 1\ntea 1\nmilk 3\n")
            example.until_lines("('tea', 7.5)", "('coffee', 3.0)")
            assert not any("milk" in line for line in example.lines)

    run_example("join_table", *server.address, act=act)


@pytest.mark.usefixtures("frugal_plans")
def test_dataframe_sql_queries_each_batch_with_a_table(run_example: RunExample, server: LineServer) -> None:
    from pyspark.sql import SparkSession

    def act(example: Running) -> None:
        with server.accept() as connection:
            connection.sendall(b"tea 2\ncoffee 3\ntea 1\nmilk 3\n")
            example.until_lines("| coffee|   3|    9.0|", "|    tea|   3|    7.5|")
            lines = example.lines
            assert lines.index("| coffee|   3|    9.0|") + 1 == lines.index("|    tea|   3|    7.5|")

    try:
        run_example("dataframe_sql", *server.address, act=act, interval_s=1)
    finally:
        SparkSession.builder.getOrCreate().catalog.dropTempView("products")


def test_file_dashboard_counts_levels_and_serves_the_dashboard(run_example: RunExample, tmp_path: Path) -> None:
    def act(example: Running) -> None:
        with log.open("a") as lines:
            lines.write("12:00 ERROR disk full\n")
        example.until_lines("('ERROR', 1)", f"dashboard: {example.ssc.uiWebUrl}")
        base, _, token = str(example.ssc.uiWebUrl).partition("/?token=")
        bearer = {"Authorization": f"Bearer {token}"}
        with urlopen(Request(f"{base}/api/v1/applications", headers=bearer), timeout=20) as answer:
            (application,) = json.load(answer)
        assert application["name"] == example.ssc.sparkContext.appName

    log = tmp_path / "app.log"
    log.write_text("")
    conf = {"spark.penstock.ui.enabled": "true", "spark.penstock.ui.port": "0"}
    run_example("file_dashboard", log, act=act, conf=conf)


@pytest.fixture
def webhook() -> Iterator[tuple[str, list[str]]]:
    """The address of a webhook, and what was posted to it."""
    posted: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", posted
        server.shutdown()
        thread.join(20)


def test_webhook_alerts_posts_why_a_batch_failed(run_example: RunExample, webhook: tuple[str, list[str]]) -> None:
    def act(_example: Running) -> None:
        wait_for(failures, "an alert")
        assert re.match(r"pprint at webhook_alerts.py:\d+ failed\nTraceback", failures()[0])
        assert "\nZeroDivisionError: integer division or modulo by zero\n" in failures()[0]

    def failures() -> list[str]:
        # A busy machine has others, too: batches that wait.
        return [text for text in posted if text.startswith("pprint")]

    url, posted = webhook
    # Every batch fails, and the program must not end for that.
    run_example("webhook_alerts", url, act=act, replace={"% 200": "% 3", 'Batches", "10"': 'Batches", "1000"'})


def test_sessions_end_by_silence(run_example: RunExample) -> None:
    def act(example: Running) -> None:
        example.until_lines("bob left after 1 pages", "ann left after 3 pages")
        order = [line for line in example.lines if line.startswith(("ann", "bob"))]
        assert sorted(order[:2]) == ["ann is on home", "bob is on home"]
        assert [line for line in order if line.startswith("ann")][1:] == [
            "ann is on shop",
            "ann is on till",
            "ann left after 3 pages",
        ]

    run_example("sessions", act=act, replace={"timeout(2)": "timeout(0.4)"})


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("stateful_wordcount", r"most frequent: \[\('\w+', \d+\), .*\]"),
        ("join_table", r"\('(tea|coffee|cake)', \d+\.\d\)"),
    ],
)
def test_example_runs_without_arguments(run_example: RunExample, name: str, printed: str) -> None:
    def act(example: Running) -> None:
        wait_for(lambda: any(re.fullmatch(printed, line) for line in example.lines), printed)

    run_example(name, act=act)
