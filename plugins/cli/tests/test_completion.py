"""Shell completion: names of plugins, receivers, estimators, workloads and keys, and silence when something fails."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from click.shell_completion import ShellComplete

from penstock_cli.command import penstock

Install = Callable[[str, str], None]

PLUGIN = """
from penstock import RateEstimatorSpec, ReceiverSpec, hookimpl

print("noise")

@hookimpl
def receivers():
    return [ReceiverSpec("well", lambda: None), ReceiverSpec("spring", lambda: None)]

@hookimpl
def rate_estimators():
    return [RateEstimatorSpec("bucket", lambda options, interval: None)]
"""


def completed(*arguments: str) -> set[str]:
    """What the shell offers for the last argument."""
    complete = ShellComplete(penstock, {}, "penstock", "_PENSTOCK_COMPLETE")
    return {item.value for item in complete.get_completions(list(arguments[:-1]), arguments[-1])}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("plugins", "show", ""), {"acme", "well", "spring", "bucket"}),
        (("plugins", "check", "b"), {"bucket"}),
        (("pack", "a"), {"acme"}),
        (("demo", "--receiver", "w"), {"well"}),
        (("rate", "simulate", "--estimator", ""), {"bucket"}),
        (("rate", "simulate", "--workload", "stea"), {"steady"}),
        (("conf", "explain", "spark.streaming.blockI"), {"spark.streaming.blockInterval"}),
        (("conf", "list", "--group", "sec"), {"security"}),
    ],
)
def test_names_are_completed(
    install: Install, capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...], expected: set[str]
) -> None:
    install("acme", PLUGIN)
    assert completed(*arguments) == expected
    assert capfd.readouterr() == ("", "")


def test_commands_are_completed() -> None:
    assert {"conf", "checkpoint"} <= completed("c")


def test_nothing_is_completed_when_the_configuration_cannot_be_read(
    install: Install, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    install("acme", PLUGIN)
    monkeypatch.setitem(os.environ, "PYSPARK_SUBMIT_ARGS", "--conf 'unclosed")
    assert completed("demo", "--receiver", "") == set()
    assert capfd.readouterr() == ("", "")
