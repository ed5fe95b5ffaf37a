"""``penstock demo``: runs a word count here and shows its batches.

The program is in ``demo_program``, the output in ``demo_view``. Runs on the main thread.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from penstock import PenstockError
from penstock.spi import set_level
from penstock_cli.demo_view import Lines, Picture, Screen, ViewedBatch, summary
from penstock_cli.demonstrations import Demonstration, OutputDemonstration, demonstration, demonstration_names
from penstock_cli.installed import completes, load_plugins, offered_names
from penstock_cli.java import ensure_java
from penstock_cli.launch import PROGRESS, UDS, local_master
from penstock_cli.line_producer import LineProducer
from penstock_cli.shared import examples, is_live, option_pairs, terminal

if TYPE_CHECKING:
    from penstock_cli.demo_program import Arrival, WordCount

# Maximum time until Spark has started the receiver, and from then, or from its first error, to its first record.
# The time of the first batch with records is in neither.
_START_S, _FIRST_RECORD_S = 120.0, 60.0
_RECEIVER = "synthetic"
_DASHBOARD = "spark.penstock.ui."

#: The receiver, its options, the producer of its source, and a further output.
Source: TypeAlias = "tuple[str, Mapping[str, Any], LineProducer | None, OutputDemonstration | None]"


@click.command(
    epilog=examples(
        ("demo", "10 batches of 10,000 lines a second"),
        ("demo --rate 100000 --interval 0.5", "more lines, shorter batches"),
        ("demo nats", "a broker, a producer and its receiver, of a plugin that brings such a demonstration"),
        ("demo tables", "the lines in a table as well, which you can query"),
        (
            "demo --receiver socket --option host=localhost --option port=9999",
            'the words of another receiver: "nc -lk 9999"',
        ),
    )
)
@click.argument("name", required=False, shell_complete=completes(demonstration_names))
@click.option("--batches", default=10, show_default=True, type=click.IntRange(min=1), help="Number of batches to show.")
@click.option(
    "--interval", default=1.0, show_default=True, type=click.FloatRange(min=0.001), help="Batch interval in seconds."
)
@click.option(
    "--rate", default=10_000, show_default=True, type=click.FloatRange(min=0, min_open=True), help="Lines per second."
)
@click.option("--seed", type=int, help="Seed of the lines; the same seed gives the same lines.")
@click.option(
    "--receiver",
    metavar="NAME",
    default=_RECEIVER,
    show_default=True,
    shell_complete=completes(lambda: offered_names("receivers")),
    help="The receiver that runs, of any installed plugin.",
)
@click.option(
    "--option",
    "extra",
    multiple=True,
    metavar="NAME=VALUE",
    callback=option_pairs,
    help="An option of the receiver; repeatable.",
)
@click.pass_context
def demo(
    context: click.Context,
    name: str | None,
    batches: int,
    interval: float,
    rate: float,
    seed: int | None,
    receiver: str,
    extra: dict[str, str],
) -> None:
    """Run a stream here and watch its batches.

    Starts Spark on this machine; needs no data and no cluster. A receiver generates lines of text, and each batch
    counts their words. Ends after the given number of batches, counted from the first one with records. With --receiver
    another receiver runs, and the words of its records are counted. With a NAME, its plugin runs the receiver's source
    and sends lines to it, or writes the generated lines into its output.
    """
    with _source(context, name, receiver, rate, seed) as (receiver_name, options, producer, output):
        _show((receiver_name, {**options, **extra}), producer, batches, interval, verbose=context.obj, output=output)


def _source(
    context: click.Context, name: str | None, receiver: str, rate: float, seed: int | None
) -> AbstractContextManager[Source]:
    """The receiver with its options, and inside the context its source and, if it needs one, a producer."""

    def is_given(parameter: str) -> bool:
        return context.get_parameter_source(parameter) is not click.core.ParameterSource.DEFAULT

    if name is not None:
        if is_given("receiver"):
            raise click.UsageError(f"--receiver cannot be combined with {name}, which is a receiver itself")
        return _demonstrated(name, demonstration(name), rate, seed)
    if receiver == _RECEIVER:
        return nullcontext((receiver, _generated(rate, seed), None, None))
    if given := next(filter(is_given, ("rate", "seed")), None):
        raise click.UsageError(f"--{given} is an option of {_RECEIVER}: use --option for {receiver}")
    return nullcontext((receiver, {}, None, None))


def _generated(rate: float, seed: int | None) -> dict[str, Any]:
    return {"rate": rate, "shape": "lines"} | ({} if seed is None else {"seed": seed})


@contextmanager
def _demonstrated(name: str, source: Demonstration, rate: float, seed: int | None) -> Iterator[Source]:
    with source() as given:
        if not isinstance(given, tuple):
            yield _RECEIVER, _generated(rate, seed), None, given
            return
        options, send = given
        with LineProducer(send, rate, seed) as producer:
            yield name, options, producer, None


def _show(
    source: tuple[str, dict[str, Any]],
    producer: LineProducer | None,
    batches: int,
    interval_s: float,
    *,
    verbose: bool,
    output: OutputDemonstration | None = None,
) -> None:
    """Run the program, show its batches as they complete, their summary, and what the output says."""
    _check(*source)
    ensure_java()
    screen: Screen = Picture(terminal()) if is_live() and not verbose else Lines()
    seen: list[ViewedBatch] = []
    try:
        with screen:
            for batch in _batches(screen, batches, interval_s, source, producer, verbose=verbose, output=output):
                seen.append(batch)
                screen.add(batch)
                screen.phase(f"{len(seen)} of {batches} batches; Ctrl-C stops")
    finally:
        if seen:
            click.echo(summary(seen))
            if output is not None:
                click.echo(output.report())


def _check(receiver: str, options: dict[str, Any]) -> None:
    """Find missing plugins and invalid options before Spark starts."""
    spec = load_plugins().spec("receivers", receiver)
    spec.read_options(options, way="pass --option {option}=…")


def _batches(
    screen: Screen,
    count: int,
    interval_s: float,
    source: tuple[str, dict[str, Any]],
    producer: LineProducer | None = None,
    *,
    verbose: bool,
    output: OutputDemonstration | None = None,
) -> Iterator[ViewedBatch]:
    """Run the program and yield its batches as they complete.

    Raises:
        PenstockError: Spark does not start, a batch fails, or no record arrives.
    """
    screen.phase("starting Spark")
    from penstock_cli.demo_program import WordCount, quiet_spark

    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Without Spark's UI the dashboard would be off, too; without the plugin that has it, the key would be unknown.
    dashboard = {f"{_DASHBOARD}enabled": "true"} if _DASHBOARD in load_plugins().known_options() else {}
    sc = quiet_spark(
        {
            "spark.master": local_master(receivers=1),
            "spark.app.name": "penstock demo",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            PROGRESS: "false",
            "spark.penstock.log.level": "INFO" if verbose else "WARNING",
            UDS: "true",
            **dashboard,
        },
        verbose=verbose,
    )
    try:
        program = WordCount(sc, interval_s, *source, producer, output)
        try:
            program.ssc.start()
            if program.ssc.uiWebUrl is not None:
                screen.dashboard(program.ssc.uiWebUrl)
            screen.phase("starting the receiver")
            yield from _completed(program, count, interval_s)
        finally:
            screen.phase("stopping")
            if not verbose:
                set_level("ERROR")  # stopping cuts off the current batch, which would be logged
            program.ssc.stop(stopSparkContext=False)
    finally:
        sc.stop()


def _completed(program: WordCount, count: int, interval_s: float) -> Iterator[ViewedBatch]:
    num_batches, started_s = 0, time.monotonic()
    while num_batches < count:
        batch = program.next_batch(timeout_s=0.2)
        if batch is None:
            program.check()  # raises an error from before the first batch
        elif num_batches or batch.info.numRecords or batch.failure:
            num_batches += 1
            yield batch
            if batch.failure:
                raise PenstockError(f"batch failed: {batch.failure}")
        # A batch begins up to an interval after its first record.
        if reason := _why_no_record(program.arrival, started_s, time.monotonic() - interval_s):
            raise PenstockError(f"no record arrived: {reason}")


def _why_no_record(arrival: Arrival, started_s: float, now_s: float) -> str:
    """Why no record is to be expected any more; empty while the demonstration waits for one, or has one. Pure.

    Args:
        arrival: what the listener has seen.
        started_s: when the program started.
        now_s: by the same clock.
    """
    if arrival.has_records:
        return ""
    advice = "Unless the machine was busy, see penstock -v demo"
    if arrival.receiver_s is None:
        return f"the receiver did not start in {_START_S:g} s. {advice}" if now_s - started_s > _START_S else ""
    if now_s - arrival.receiver_s <= _FIRST_RECORD_S:
        return ""
    return arrival.receiver_error or f"the receiver stored none in {_FIRST_RECORD_S:g} s. {advice}"
