"""``penstock plugins check``: runs the conformance checks on an installed plugin.

What is tested comes from a suite: the one of ``--suite``, else those that distributions name in the entry-point group
``penstock.suites``. Without a suite, a receiver or rate estimator is made from its spec. The checks run in processes of
their own, as does the search for the name, so that a plugin that hangs or crashes ends neither.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

import attrs
import click

import penstock_testing as testing
from penstock import ConfigurationError
from penstock.spi import GROUP, KINDS, SUITES_GROUP, UnknownNameError, options_of, summary_of
from penstock_cli.installed import completes, load_plugins, offered_names, plugin_names
from penstock_cli.shared import examples, option_pairs
from penstock_testing.check import scale
from penstock_testing.plugin_probe import installed, probe
from penstock_testing.subject import HOOKS

if TYPE_CHECKING:
    from penstock_testing.check import Kind
    from penstock_testing.check_report import Report, Result
    from penstock_testing.subject import Subject

_EXIT_CODES = {"may": 0, "should": 3, "must": 4}
_PROBE_LIMIT_S = 15.0
# Kind of a spec as plugins are listed → kind of its checks.
_KINDS: Mapping[str, Kind] = {"receiver": "receiver", "rate estimator": "rate-estimator"}


def _testable() -> list[str]:
    return [*plugin_names(), *offered_names("receivers", "rate_estimators")]


@click.command(
    epilog=examples(
        ("plugins check socket", "all checks on the receiver socket"),
        ("plugins check weather --option city=Bern --only RC-06", "one check, with an option of the receiver"),
        ("plugins check weather --live --json", "with Spark, for a script"),
    )
)
@click.argument("name", shell_complete=completes(_testable))
@click.option(
    "--kind", metavar="KIND", help="receiver, rate-estimator, listener, block-store; plugin: packaging alone."
)
@click.option("--suite", metavar="MODULE:CLASS", help="The suite that says how the plugin is made and fed.")
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    callback=option_pairs,
    help="An option of the plugin; repeatable.",
)
@click.option("--only", multiple=True, metavar="ID", help="Run this check, such as RC-06; repeatable.")
@click.option("--seed", type=int, help="Seed of everything random; 0 unless the suite has one.")
@click.option("--live", is_flag=True, help="Also run the checks that start Spark.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of reports; progress goes to standard error.")
def check(
    name: str,
    kind: str | None,
    suite: str | None,
    options: dict[str, str],
    only: tuple[str, ...],
    seed: int | None,
    live: bool,
    as_json: bool,
) -> None:
    """Run the conformance checks on a plugin.

    NAME is the name of a receiver, a rate estimator or a plugin. A plugin's suite says how it is fed, and what it
    declares; a receiver without a suite runs without data.

    Exits with 0 if every check of level must and should passed, with 3 if one of level should failed, with 4 if one of
    level must failed, and with 1 if nothing could be tested.
    """
    subjects = _from_suite(suite, name, kind) if suite else _subjects(name, kind)
    for subject in subjects:
        _refuse_unknown(options, subject)
    reports = []
    for subject in subjects:
        changed = attrs.evolve(
            subject,
            options={**subject.options, **options},
            seed=subject.seed if seed is None else seed,
            live=subject.live or live,
        )
        reports.append(_run(changed, only, as_json=as_json))
    if as_json:
        click.echo(json.dumps([json.loads(report.to_json()) for report in reports], indent=2))
    raise click.exceptions.Exit(max(map(_exit_code, reports)))


def _refuse_unknown(options: Mapping[str, str], subject: Subject) -> None:
    """Refuse an option that an installed plugin lacks; otherwise every check would fail with that error.

    Raises:
        UnknownNameError: names the nearest option.
    """
    if not options or subject.make is not None or subject.kind not in HOOKS:
        return
    hook = HOOKS[subject.kind]
    spec = load_plugins(isolated=True).spec(hook, subject.name)
    known = [option.name for option in options_of(spec)]
    for unknown in options.keys() - known:
        raise UnknownNameError("option", unknown, known, f"{KINDS[hook][0]} {subject.name!r}")


def _subjects(name: str, kind: str | None) -> list[Subject]:
    """What is to be tested under a name.

    Raises:
        UnknownNameError: no plugin has this name or offers anything under it.
        ConfigurationError: what has this name is of another kind.
    """
    found = sorted(
        (probe(each, _PROBE_LIMIT_S * scale()) for each in installed()), key=lambda facts: facts.name != name
    )
    plugin = next((each for each in found if each.name == name), None)
    offering = [each for each in found if name in {offered for _, offered in each.offers}]
    suites = list(importlib.metadata.entry_points(group=SUITES_GROUP, name=name))
    if plugin is not None and plugin.step:
        # Neither its suite nor anything that it offers can be made.
        subjects = [testing.Subject(kind="plugin", name=name)]
    elif suites and kind != "plugin":
        subjects = [subject for each in suites for subject in _from_suite(each.value, name, None)]
    elif offering and kind != "plugin":
        kinds: list[Kind] = [
            _KINDS.get(offer, "plugin") for each in offering for offer, offered in each.offers if offered == name
        ]
        subjects = [testing.Subject(kind=each, name=name) for each in kinds]
    elif plugin is not None or offering or _is_misplaced(name):
        subjects = [testing.Subject(kind="plugin", name=name if plugin or not offering else offering[0].name)]
    else:
        known = {each.name for each in found} | {offered for each in found for _, offered in each.offers}
        raise UnknownNameError("plugin, receiver or rate estimator", name, known)
    if kind is None or (plugin is not None and plugin.step):
        return subjects
    chosen = [each for each in subjects if each.kind == kind]
    if not chosen:
        there = ", ".join(sorted({str(each.kind) for each in subjects}))
        raise ConfigurationError(f"--kind {kind}: {name!r} has no checks of this kind, it is of kind {there}")
    return chosen


def _is_misplaced(name: str) -> bool:
    """Whether an entry point of this name is in a group that only resembles Penstock's; PK-02 reports it."""
    all_of_them = [each for one in importlib.metadata.distributions() for each in one.entry_points]
    return any(each.name == name and get_close_matches(each.group, [GROUP]) for each in all_of_them)


def _from_suite(value: str, name: str, kind: str | None) -> list[Subject]:
    """What a suite says.

    Raises:
        ConfigurationError: the suite cannot be loaded, is none, or is of another kind.
    """
    # Modules in the working directory are found, as by ``python -m``.
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        suite = importlib.metadata.EntryPoint(name, value, SUITES_GROUP).load()
    # Third-party code: whatever it raises is reported.
    except (Exception, SystemExit) as error:
        raise ConfigurationError(f"the suite {value} does not load: {summary_of(error)}") from error
    if not (isinstance(suite, type) and issubclass(suite, testing.ConformanceSuite)):
        raise ConfigurationError(
            f"{value} is not a suite: derive a class from penstock_testing.ReceiverSuite or its siblings"
        )
    subject = suite().subject()
    if kind not in {None, subject.kind}:
        raise ConfigurationError(f"--kind {kind}: the suite {value} is of kind {subject.kind}")
    return [subject if subject.name else attrs.evolve(subject, name=name)]


def _run(subject: Subject, only: Sequence[str], *, as_json: bool) -> Report:
    def show(result: Result) -> None:
        click.echo(result.text(), err=as_json)

    report = testing.run_subject(subject, only or None, isolated=True, on_result=show)
    click.echo(report.summary(), err=as_json)
    return report


def _exit_code(report: Report) -> int:
    return max(
        (_EXIT_CODES[each.level] for each in report.failed), default=0 if report.is_complete else _EXIT_CODES["must"]
    )
