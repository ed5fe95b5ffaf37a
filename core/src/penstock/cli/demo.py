"""``penstock demo``: a stream at work, to be looked at.

Owns the order of things: check, start Spark, show each batch, stop, sum up. The program it shows is ``word_count``, the
picture ``batch_view``. Runs on the main thread.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from penstock.cli import installed
from penstock.cli.batch_view import ViewedBatch, summary
from penstock.cli.local_master import local_master
from penstock.cli.screen import Lines, Picture, Screen
from penstock.cli.terminal import is_live, terminal
from penstock.errors import BatchFailedError, ConfigurationError, PenstockError, UnknownNameError
from penstock.launch.java import ensure_java
from penstock.launch.launch_conf import UDS
from penstock.plugins.specs import read_options
from penstock.runtime.log import set_level

if TYPE_CHECKING:
    from penstock.cli.word_count import WordCount

# From the start of the receiver to its first record, on a slow machine.
_PATIENCE_S = 30.0


@click.command()
@click.option("--batches", default=10, show_default=True, type=click.IntRange(min=1), help="Batches to show.")
@click.option(
    "--interval", default=1.0, show_default=True, type=click.FloatRange(min=0.001), help="Seconds between batches."
)
@click.option(
    "--rate", default=10_000, show_default=True, type=click.FloatRange(min=0, min_open=True), help="Lines a second."
)
@click.option("--seed", type=int, help="Of the lines; the same seed makes the same lines.")
@click.pass_obj
def demo(verbose: bool, batches: int, interval: float, rate: float, seed: int | None) -> None:
    """Watch a stream at work.

    Lines are made, received, and counted by word, batch by batch. Ends by itself after so many batches, counted from
    the first that has records.
    """
    options: dict[str, Any] = {"rate": rate, "shape": "lines"}
    if seed is not None:
        options["seed"] = seed
    _check(options)
    ensure_java()
    screen: Screen = Picture(terminal()) if is_live() and not verbose else Lines()
    seen: list[ViewedBatch] = []
    try:
        with screen:
            for batch in _batches(screen, batches, interval, options, heard=verbose):
                seen.append(batch)
                screen.add(batch)
                screen.phase(f"{len(seen)} of {batches} batches; Ctrl-C stops")
    finally:
        if seen:
            click.echo(summary(seen))


def _check(options: dict[str, Any]) -> None:
    """Find now what would be found once Spark runs."""
    try:
        spec = installed.load().spec("receivers", "synthetic")
    except UnknownNameError:
        raise ConfigurationError(
            "the demo needs the receiver 'synthetic': pip install penstock-synthetic (if it is: penstock doctor)"
        ) from None
    read_options("receiver", spec, options)


def _batches(
    screen: Screen, count: int, interval_s: float, options: dict[str, Any], *, heard: bool
) -> Iterator[ViewedBatch]:
    """Run the program; give its batches as they complete.

    Raises:
        PenstockError: Spark does not start, a batch fails, or nothing arrives.
    """
    screen.phase("starting Spark")
    from penstock.cli.quiet_spark import quiet_spark
    from penstock.cli.word_count import WordCount

    os.environ["PYSPARK_PYTHON"] = sys.executable
    sc = quiet_spark(
        {
            "spark.master": local_master(receivers=1),
            "spark.app.name": "penstock demo",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.penstock.log.level": "INFO" if heard else "WARNING",
            UDS: "true",
        },
        heard=heard,
    )
    try:
        program = WordCount(sc, interval_s, options)
        try:
            program.ssc.start()
            screen.phase("starting the receiver")
            yield from _completed(program, count, time.monotonic() + _PATIENCE_S + 2 * interval_s)
        finally:
            screen.phase("stopping")
            if not heard:
                set_level("ERROR")  # that a batch was cut off is what stopping means here
            program.ssc.stop(stopSparkContext=False)
    finally:
        sc.stop()


def _completed(program: WordCount, count: int, first_by: float) -> Iterator[ViewedBatch]:
    given = 0
    while given < count:
        batch = program.next_batch(timeout_s=0.2)
        if batch is None:
            program.ssc.awaitTerminationOrTimeout(0)  # raises what went wrong before a batch could run
        elif given or batch.info.numRecords or batch.failure:
            given += 1
            yield batch
            if batch.failure:
                raise BatchFailedError(f"a batch failed: {batch.failure}")
        if not given and time.monotonic() > first_by:
            raise PenstockError(f"nothing arrived: {program.receiver_trouble() or 'the receiver stored no record'}")
