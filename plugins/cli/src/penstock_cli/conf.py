"""``penstock conf``: lists every configuration key of the core and the plugins, and checks configurations.

Imports no Spark. Values are printed only where they are refused, and secrets (options with ``repr=False``) never.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import get_type_hints

import attrs
import click
from attrs import frozen
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from penstock import ConfigurationError
from penstock.spi import (
    KEYS,
    Option,
    Plugins,
    Settings,
    UnknownNameError,
    conf_here,
    keys_without_effect,
    read_properties,
    structure_options,
)
from penstock_cli.installed import completes, load_plugins
from penstock_cli.shared import as_json_option, conf_pairs, examples, print_json, terminal


@frozen
class KnownKey:
    """A key that the core or an installed plugin reads.

    Attributes:
        name: the full name.
        type: the accepted values.
        default: the default as text; ``None`` when a value is required.
        in_production: the default in the profile ``production``; ``None`` for the same.
        group: the heading in the documentation, or the component that owns the option.
        meaning: description of its effect.
    """

    name: str
    type: str
    default: str | None
    group: str
    meaning: str
    in_production: str | None = None

    @property
    def defaults(self) -> str:
        """The defaults, for people."""
        default = "required" if self.default is None else self.default.replace("`", "") or "(empty)"
        return default if self.in_production is None else f"{default}, in production {self.in_production}"


@frozen
class Problem:
    """A problem with a configuration.

    Attributes:
        key: the key; empty for an error that names none.
        is_error: whether a program refuses to start; otherwise the key has no effect.
        text: description of the problem.
        remedy: advice; empty when the text says it.
        line: line number in the file, from 1; 0 without a file.
    """

    key: str
    is_error: bool
    text: str
    remedy: str = ""
    line: int = 0


@click.group(
    epilog=examples(
        ("conf list rate", "the keys that have to do with rates"),
        ("conf explain spark.streaming.blockInterval", "one key"),
        ("conf check spark-defaults.conf", "is a file right?"),
    )
)
def conf() -> None:
    """List, explain and check configuration keys.

    Configuration is set where Spark's is: in the program's SparkConf, by --conf KEY=VALUE of "penstock run" and
    spark-submit, or in conf/spark-defaults.conf.
    """


@conf.command(
    "list",
    epilog=examples(
        ("conf list", "every key of Penstock and of the installed plugins"),
        ("conf list backlog", "those whose name or meaning has this word"),
        ("conf list --group 'start here'", "the few to begin with"),
    ),
)
@click.argument("text", default="")
@click.option(
    "--group",
    shell_complete=completes(lambda: _groups()),
    metavar="GROUP",
    help="Only this group, such as 'start here', 'rate' or 'receiver socket'.",
)
@as_json_option
def list_keys(text: str, group: str | None, as_json: bool) -> None:
    """List configuration keys and what they mean.

    With TEXT, only the keys whose name or meaning contains it.
    """
    all_keys = known_keys(load_plugins(isolated=True))
    groups = list(dict.fromkeys(key.group for key in all_keys))
    if group is not None and group not in groups:
        raise UnknownNameError("group", group, groups)
    matches = [
        key for key in all_keys if group in {None, key.group} and text.lower() in f"{key.name} {key.meaning}".lower()
    ]
    if as_json:
        print_json([attrs.asdict(key) for key in matches])
    elif matches:
        terminal().print(Group(*_listed(matches)), soft_wrap=False)
    else:
        click.echo(f"no key has {text!r} in its name or meaning: penstock conf list shows all")


@conf.command(
    epilog=examples(
        ("conf explain spark.streaming.backpressure.enabled", "a key that Spark Streaming has, too"),
        ("conf explain spark.penstock.receiver.socket.host", "an option of a plugin"),
    )
)
@click.argument("name", metavar="KEY", shell_complete=completes(lambda: _names()))
@as_json_option
def explain(name: str, as_json: bool) -> None:
    """Explain a configuration key.

    Prints type, default and meaning. Also says of a key of Spark Streaming that has no effect here what to do instead.
    """
    keys = {key.name: key for key in known_keys(load_plugins(isolated=True))}
    if name.startswith(level := f"{KEYS['log_level'].name}."):
        keys[name] = attrs.evolve(keys[f"{level}<component>"], name=name)
    warnings = [] if name in keys else keys_without_effect(Settings.parse({name: ""}), {})
    advice = next((warning.advice for warning in warnings if warning.reason == "ignored by Penstock"), None)
    if name not in keys and advice is None:
        near = [key for key in keys if name.lower() in key.lower()] or get_close_matches(name, keys, 3, 0.7)
        hint = f" Did you mean {' or '.join(near[:3])}?" if near else ""
        if name.startswith("spark.") and not name.startswith(("spark.penstock.", "spark.streaming.")):
            hint += " Penstock does not read it; Spark's documentation explains Spark's own keys."
        raise ConfigurationError(f"unknown configuration key {name!r}.{hint} penstock conf list shows all keys")
    if name in keys:
        values = attrs.asdict(keys[name])
    else:
        values = attrs.asdict(KnownKey(name, "", "", "ignored", f"Penstock ignores this key of Spark: {advice}"))
    if as_json:
        print_json(values)
        return
    console = terminal()
    console.print(Text(name, "bold"), soft_wrap=True)
    described = Table.grid(padding=(0, 2))
    for field in ("type", "default", "group", "meaning"):
        text = keys[name].defaults if field == "default" and name in keys else values[field].replace("`", "")
        if text:
            described.add_row(f"  {field}", text)
    console.print(described)


@conf.command(
    epilog=examples(
        ("conf check", "what programs get here: spark-defaults.conf and PYSPARK_SUBMIT_ARGS"),
        ("conf check conf/production.conf", "a file, before it is used"),
        ("conf check --conf spark.streaming.blockInterval=1s", "with a key from the command line"),
    )
)
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--conf",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    callback=conf_pairs,
    help="An additional key; repeatable.",
)
@as_json_option
def check(file: Path | None, overrides: dict[str, str], as_json: bool) -> None:
    """Check configuration before a program starts.

    Finds unknown keys, keys that Penstock ignores and invalid values among the properties in FILE, by default in the
    configuration that programs get here. Keys of Spark itself are not checked.

    Exits with 1 if something is wrong.
    """
    properties = [] if file is None else read_properties(file)
    pairs = conf_here() if file is None else {key: value for key, value, _line in properties}
    lines = {key: line for key, _value, line in properties if key not in overrides}
    findings = [
        attrs.evolve(problem, line=lines.get(problem.key, 0))
        for problem in problems(pairs | overrides, load_plugins(isolated=True))
    ]
    findings = sorted([*_odd(properties), *findings], key=lambda problem: problem.line)
    if as_json:
        print_json([attrs.asdict(problem) for problem in findings])
    else:
        _print(findings, "" if file is None else str(file), pairs | overrides)
    if findings:
        raise click.exceptions.Exit(1)


def known_keys(plugins: Plugins) -> list[KnownKey]:
    """The keys of the core in the order of the documentation, then those of the plugins."""
    keys = []
    for key in KEYS.values():
        default = f"the value of {KEYS[key.falls_back_to].name}" if key.falls_back_to else key.default
        in_production = plugins.in_production.get(key.name, key.in_production)
        keys.append(KnownKey(key.name, key.type.replace("`", ""), default, key.group, key.help, in_production))
    level, meaning = KEYS["log_level"].name, "Lowest level that a component logs, such as `receiver_supervisor`."
    keys.append(KnownKey(f"{level}.<component>", "log level", f"the value of {level}", "log level", meaning))
    for prefix, (owner, options) in _options(plugins).items():
        for option in Option.of(options):
            written = None if option.default is None else _as_configured(option.default)
            keys.append(KnownKey(f"{prefix}{option.name}", option.type, written, owner, option.help))
    return keys


def _as_configured(default: str) -> str:
    """Convert the ``repr`` of a default to configuration syntax; empty for ``None``."""
    try:
        value = ast.literal_eval(default)
    except (SyntaxError, ValueError):
        return default  # such as "(hidden)"
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _names() -> list[str]:
    return [key.name for key in known_keys(load_plugins())]


def _groups() -> list[str]:
    return [key.group for key in known_keys(load_plugins())]


def problems(pairs: Mapping[str, str], plugins: Plugins) -> list[Problem]:
    """Find the problems of a configuration: invalid values, and keys that have no effect."""
    findings, valid = list[Problem](), dict(pairs)
    while True:
        try:
            settings = Settings.parse(valid)
            break
        except ConfigurationError as error:
            # Parsing ends at the first invalid value. Without that key, it finds the next one.
            name = _named(valid, error)
            findings.append(Problem(name, True, str(error)))
            if valid.pop(name, None) is None:
                return findings
    # The components are known only where they run.
    known_options = plugins.known_options() | {f"{KEYS['log_level'].name}.": None}
    for unused in keys_without_effect(settings, known_options):
        findings.append(Problem(unused.key, False, f"{unused.key}: {unused.reason}", unused.advice))
    estimator = settings.rate_estimator if settings.backpressure_enabled else None
    if estimator is not None:
        try:
            plugins.spec("rate_estimators", estimator, KEYS["rate_estimator"].name)
        except UnknownNameError as error:
            findings.append(Problem(KEYS["rate_estimator"].name, True, str(error)))
    for prefix, (owner, options) in _options(plugins).items():
        values = settings.with_prefix(prefix)
        findings += _refused_options(prefix, owner, options, values, is_used=owner == f"rate estimator {estimator}")
    return findings


def _refused_options(
    prefix: str, owner: str, options: type, values: Mapping[str, str], *, is_used: bool
) -> Iterator[Problem]:
    """Check the options of a plugin; ``is_used``: also report required options that are not configured."""
    described = {field.name: field for field in Option.of(options)}
    declared = {name: text for name, text in values.items() if name in described}
    missing = [name for name, field in described.items() if field.default is None and name not in declared]
    if not missing or is_used:
        try:
            keys = {name: f"{prefix}{name}" for name in declared}
            structure_options(owner, options, declared, keys, f"set {prefix}{{option}}")
        except ConfigurationError as error:
            yield Problem(_named(keys.values(), error), True, str(error))
        return
    # The program sets the missing options, such as the host of a socket. Until then only types can be checked.
    types = get_type_hints(options, include_extras=True)
    fields = {
        field.name: attrs.field(type=types[field.name], alias=field.alias, repr=field.repr)
        for field in attrs.fields(options)
        if (field.alias or field.name) in declared
    }
    try:
        keys = {name: f"{prefix}{name}" for name in declared}
        structure_options(owner, attrs.make_class("GivenOptions", fields), declared, keys)
    except ConfigurationError as error:
        yield Problem(_named(keys.values(), error), True, str(error))


def _named(names: Iterable[str], error: Exception) -> str:
    """The key that an error names, the longest if several match; empty if it names none."""
    return max((name for name in names if name in str(error)), key=len, default="")


def _options(plugins: Plugins) -> dict[str, tuple[str, type]]:
    """Prefix of keys → the owner of the options, and their class."""
    options_by_prefix = {
        spec.prefix: (f"{spec.kind} {name}", spec.options)
        for hook in Plugins.KINDS
        for name, spec in plugins.specs(hook).items()
        if spec.options is not None
    }
    for plugin in plugins.loaded:
        options_by_prefix |= {prefix: (f"plugin {plugin.name}", options) for prefix, options in plugin.options.items()}
    return options_by_prefix


def _odd(properties: Iterable[tuple[str, str, int]]) -> Iterator[Problem]:
    """Keys that Spark drops, and keys that are set twice."""
    lines: dict[str, int] = {}
    for key, _value, line in properties:
        if not key.startswith("spark."):
            yield Problem(key, False, f"{key}: Spark drops keys that do not begin with spark.", line=line)
        if key in lines:
            yield Problem(key, False, f"{key}: also set in line {lines[key]}; the last line counts", line=line)
        lines[key] = line


def _print(findings: list[Problem], file: str, pairs: Mapping[str, str]) -> None:
    console = terminal()
    for problem in findings:
        where = f"{file}:{problem.line}: " if file and problem.line else ""
        level = ("fail  ", "bold red") if problem.is_error else ("warn  ", "yellow")
        console.print(Text.assemble(level, where, problem.text), soft_wrap=True)
        if problem.remedy:
            console.print(Text(f"      → {problem.remedy}"), soft_wrap=True)
    ours = sum(name.startswith(("spark.penstock.", "spark.streaming.")) for name in pairs)
    result = f"{len(findings)} problem{'s' * (len(findings) != 1)}" if findings else "ok"
    checked = f"{result}: {ours} keys of Penstock checked, {len(pairs) - ours} of Spark not"
    console.print(checked if pairs else "ok: no configuration is set here", soft_wrap=True)


def _listed(keys: Iterable[KnownKey]) -> Iterator[RenderableType]:
    """Print each key on its own line, ready to copy, with its meaning below and a heading for each group."""
    group = ""
    for key in keys:
        if key.group != group:
            yield Text("\n" * bool(group) + key.group, "bold")
            group = key.group
        default = (key.defaults, "yellow" if key.default is None else "")
        yield Text.assemble("  ", (key.name, "cyan"), "  ", default, (f"  {key.type}", "dim"), no_wrap=True)
        yield Padding(key.meaning.replace("`", ""), (0, 0, 0, 6), expand=False)
