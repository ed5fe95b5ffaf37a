"""``penstock plugins check``: runs pytest on the conformance suites of an installed plugin.

What is tested comes from a suite: the one of ``--suite``, else those that distributions name in the entry-point group
``penstock.suites``. What a plugin offers and no suite tests gets a suite without a test source: receivers and rate
estimators are made from their specs, listeners by the hook ``listeners``, a block store is the plugin itself. Each
check runs in a process of its own, as does the search for the name, so that a plugin that hangs or crashes ends
neither.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import attrs
import click

from penstock import ConfigurationError
from penstock.spi import GROUP, HOOK_OF, Option, Plugins, UnknownNameError, summary_of
from penstock_cli.installed import completes, load_plugins, offered_names, plugin_names
from penstock_cli.java import ensure_java
from penstock_cli.shared import COMMANDS_GROUP, examples, option_pairs
from penstock_testing.check import SUITES_GROUP
from penstock_testing.plugin_probe import Facts, installed, probe

if TYPE_CHECKING:
    from penstock_testing import ConformanceSuite, Report, Result

_Suite = type["ConformanceSuite"]
_EXIT_CODES = {"may": 0, "should": 3, "must": 4}
_PROBE_LIMIT_S = 15.0
# Kind of a spec as plugins are listed → kind of its checks.
_KINDS = {"receiver": "receiver", "rate estimator": "rate-estimator"}
# The hooks without specs that suites test.
_TESTED_HOOKS = {"listeners", "store", *HOOK_OF.values()}


def _testable() -> list[str]:
    return [*plugin_names(), *offered_names("receivers", "rate_estimators")]


@click.command(
    epilog=examples(
        ("plugins check socket", "all checks on everything that the plugin socket offers"),
        ("plugins check weather --option city=Bern --only RC-06", "one check, with an option of the receiver"),
        ("plugins check weather --live --json", "with Spark, for a script"),
    )
)
@click.argument("name", shell_complete=completes(_testable))
@click.option(
    "--kind", metavar="KIND", help="receiver, rate-estimator, listener, block-store; plugin: packaging alone."
)
@click.option(
    "--suite", "suite_name", metavar="MODULE:CLASS", help="The suite that creates the plugin and its test source."
)
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
    suite_name: str | None,
    options: dict[str, str],
    only: tuple[str, ...],
    seed: int | None,
    live: bool,
    as_json: bool,
) -> None:
    """Run the conformance checks on a plugin.

    NAME is the name of a plugin, whose receivers, rate estimators, listeners and block store are all tested, or of one
    receiver or rate estimator. A plugin's suite feeds it and declares its capabilities; without one, a receiver runs
    without data. The grade says what was not tested.

    Exits with 0 if every check of level must and should passed, with 3 if one of level should failed, with 4 if one of
    level must failed, and with 1 if nothing could be tested.
    """
    suites, beside = ([_loaded(suite_name, name)], []) if suite_name else _suites(name)
    suites = _of_kind(kind, suites, name, suite_name)
    reports = []
    for suite, chosen in _selected(suites, only):
        changed = {
            "name": suite.name or name,
            "options": {**suite.options, **_options_for(suite, options, suites)},
            "seed": suite.seed if seed is None else seed,
            "live": suite.live or live,
            "isolated": True,
        }
        if changed["live"]:
            ensure_java()
        last = suite is suites[-1]
        reports.append(
            _run(type(suite.name or name, (suite,), changed), chosen, beside if last else (), as_json=as_json)
        )
    if as_json:
        click.echo(json.dumps([json.loads(report.to_json()) for report in reports], indent=2))
    raise click.exceptions.Exit(max(map(_exit_code, reports)))


def _suites(name: str) -> tuple[list[_Suite], list[str]]:
    """The suites for the plugin or component of this name, and the components without a suite.

    Raises:
        UnknownNameError: no plugin has this name or offers anything under it.
    """
    from penstock_testing.check import scale
    from penstock_testing.suites import SUITES

    facts = [probe(plugin, _PROBE_LIMIT_S * scale()) for plugin in installed()]
    plugin = next((fact for fact in facts if fact.name == name), None)
    if plugin is not None and plugin.step:
        # Neither its suite nor any of its components can be created.
        return [_default("plugin", name)], []
    offers = [offer for fact in facts for offer in fact.offers if fact is plugin or offer[1] == name]
    targets = [*((_KINDS.get(kind, ""), offered) for kind, offered in offers), *_hooked(plugin)]
    beside = [f"the {kind} {offered!r}" for kind, offered in offers if kind not in _KINDS]
    beside += [] if plugin is None else _without_checks(plugin)
    names = dict.fromkeys([name, *(offered for _, offered in targets)])
    suites = [
        _loaded(entry.value, entry.name)
        for entry in importlib.metadata.entry_points(group=SUITES_GROUP)
        if entry.name in names
    ]
    covered = {(suite.kind, suite.name) for suite in suites}
    suites += [
        _default(kind, own) for kind, own in dict.fromkeys(targets) if kind in SUITES and (kind, own) not in covered
    ]
    if not suites and not (plugin or offers or _is_misplaced(name)):
        registered_names = {fact.name for fact in facts} | {offered for fact in facts for _, offered in fact.offers}
        raise UnknownNameError("plugin, receiver or rate estimator", name, registered_names)
    return suites or [_default("plugin", name)], beside


def _hooked(plugin: Facts | None) -> Iterable[tuple[str, str]]:
    """Kind and name of the components that a plugin offers by hooks without specs."""
    if plugin is not None and {"listeners", *HOOK_OF.values()} & set(plugin.hooks):
        yield "listener", plugin.name
    if plugin is not None and "store" in plugin.hooks:
        yield "block-store", plugin.name


def _without_checks(plugin: Facts) -> Iterable[str]:
    """The hooks and subcommands of a plugin that no suite of any kind tests."""
    yield from (f"the hook {hook!r}" for hook in plugin.hooks if hook not in {*Plugins.KINDS, *_TESTED_HOOKS})
    for entry in importlib.metadata.entry_points(group=COMMANDS_GROUP):
        if entry.dist is not None and entry.dist.name == plugin.distribution:
            yield f"the command {entry.name!r}"


def _default(kind: str, name: str) -> _Suite:
    """A suite that creates the installed plugin as a program does, without a test source."""
    from penstock_testing.suites import SUITES

    return type(name, (SUITES[kind],), {"name": name})


def _is_misplaced(name: str) -> bool:
    """Whether an entry point of this name is in a group that only resembles Penstock's; PK-02 reports it."""
    entries = [entry for distribution in importlib.metadata.distributions() for entry in distribution.entry_points]
    return any(entry.name == name and get_close_matches(entry.group, [GROUP]) for entry in entries)


def _loaded(value: str, name: str) -> _Suite:
    """Load a suite; it tests the component of this name, unless it sets another.

    Raises:
        ConfigurationError: the suite cannot be loaded, or is not a suite.
    """
    from penstock_testing.suites import ConformanceSuite

    # Modules in the working directory are found, as by ``python -m``.
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        suite = importlib.metadata.EntryPoint(name, value, SUITES_GROUP).load()
    # Third-party code: every error is reported.
    except (Exception, SystemExit) as error:
        raise ConfigurationError(f"the suite {value} does not load: {summary_of(error)}") from error
    if not (isinstance(suite, type) and issubclass(suite, ConformanceSuite)):
        raise ConfigurationError(
            f"{value} is not a suite: derive a class from penstock_testing.ReceiverSuite or its siblings"
        )
    return suite if suite.name else type(suite.__name__, (suite,), {"name": name})


def _of_kind(kind: str | None, suites: list[_Suite], name: str, suite_name: str | None) -> list[_Suite]:
    """The suites of a kind; a plugin that does not load has its packaging tested, whatever the kind.

    Raises:
        ConfigurationError: there is none.
    """
    kinds = sorted({suite.kind for suite in suites})
    if kind is None or kind in kinds or (kinds == ["plugin"] and suite_name is None):
        return [suite for suite in suites if kind in {None, suite.kind, *(["plugin"] if kinds == ["plugin"] else [])}]
    if kind == "plugin" and suite_name is None:
        return [_default(kind, name)]
    if suite_name is not None:
        raise ConfigurationError(f"--kind {kind}: the suite {suite_name} is of kind {kinds[0]}")
    raise ConfigurationError(
        f"--kind {kind}: {name!r} has no checks of this kind, it is of kind {', '.join(map(str, kinds))}"
    )


def _selected(suites: Sequence[_Suite], only: Sequence[str]) -> list[tuple[_Suite, list[str] | None]]:
    """Each suite with the checks to run; without those that have none of the wanted checks.

    Raises:
        UnknownNameError: no suite has a check of this id.
    """
    from penstock_testing.suites import checks_for

    ids = {suite: {check.id for check in checks_for(suite.kind)} for suite in suites}
    for unknown in set(only) - set().union(*ids.values()):
        checks_for(suites[0].kind, [unknown])
    chosen = {suite: [check_id for check_id in only if check_id in ids[suite]] for suite in suites}
    return [(suite, chosen[suite] or None) for suite in suites if chosen[suite] or not only]


def _options_for(suite: _Suite, options: Mapping[str, str], suites: Sequence[_Suite]) -> dict[str, Any]:
    """The options that the suite's plugin has.

    Raises:
        UnknownNameError: none of the suites' plugins has an option; otherwise every check would fail with that error.
    """
    if not options:
        return {}
    options_by_suite = {other: _known_options(other) for other in suites}
    for unknown in options:
        if not any(names is None or unknown in names for names in options_by_suite.values()):
            first = next(other for other in suites if options_by_suite[other] is not None)
            owner = f"{first.kind.replace('-', ' ')} {first.name!r}"
            raise UnknownNameError("option", unknown, options_by_suite[first] or [], owner)
    names = options_by_suite[suite]
    return {name: value for name, value in options.items() if names is None or name in names}


def _known_options(suite: _Suite) -> list[str] | None:
    """The options of the suite's receiver or estimator; ``None`` where ``make`` takes any."""
    from penstock_testing.subject import HOOKS

    if suite.make is not None:
        return None
    if suite.kind not in HOOKS:
        return []
    return [
        option.name for option in Option.of(load_plugins(isolated=True).spec(HOOKS[suite.kind], suite.name).options)
    ]


def _run(suite: _Suite, only: list[str] | None, beside: Sequence[str], *, as_json: bool) -> Report:
    from penstock_testing import run_suite

    def show(result: Result) -> None:
        click.echo(result.text(), err=as_json)

    report = attrs.evolve(run_suite(suite, only, on_result=show), beside=tuple(beside))
    click.echo(report.summary(), err=as_json)
    return report


def _exit_code(report: Report) -> int:
    return max(
        (_EXIT_CODES[result.level] for result in report.failed),
        default=0 if report.is_complete else _EXIT_CODES["must"],
    )
