"""``penstock conf``: every configuration key of the core and the plugins, and checks of what is configured.

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
    KINDS,
    Plugins,
    Property,
    Settings,
    UnknownNameError,
    conf_here,
    fields_of,
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
        name: in full.
        type: what values it takes.
        default: its text; ``None`` when a value is required.
        group: heading in the documentation, or what the option belongs to.
        meaning: what it does.
    """

    name: str
    type: str
    default: str | None
    group: str
    meaning: str


@frozen
class Problem:
    """What is wrong with a configuration.

    Attributes:
        key: the key; empty for an error that names none.
        is_error: whether a program refuses to start; otherwise the key has no effect.
        text: what is wrong.
        remedy: what to do; empty when the text says it.
        line: of the file, from 1; 0 without a file.
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
    known = known_keys(load_plugins(isolated=True))
    groups = list(dict.fromkeys(each.group for each in known))
    if group is not None and group not in groups:
        raise UnknownNameError("group", group, groups)
    found = [
        each for each in known if group in {None, each.group} and text.lower() in f"{each.name} {each.meaning}".lower()
    ]
    if as_json:
        print_json([attrs.asdict(each) for each in found])
    elif found:
        terminal().print(Group(*_listed(found)), soft_wrap=False)
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
    known = {each.name: each for each in known_keys(load_plugins(isolated=True))}
    if name.startswith(level := f"{KEYS['log_level'].name}."):
        known[name] = attrs.evolve(known[f"{level}<component>"], name=name)
    warnings = [] if name in known else keys_without_effect(Settings.parse({name: ""}), {})
    advice = next((each.advice for each in warnings if each.reason == "ignored by Penstock"), None)
    if name not in known and advice is None:
        near = [each for each in known if name.lower() in each.lower()] or get_close_matches(name, known, 3, 0.7)
        hint = f" Did you mean {' or '.join(near[:3])}?" if near else ""
        if name.startswith("spark.") and not name.startswith(("spark.penstock.", "spark.streaming.")):
            hint += " Penstock does not read it; Spark's documentation explains Spark's own keys."
        raise ConfigurationError(f"unknown configuration key {name!r}.{hint} penstock conf list shows all keys")
    if name in known:
        values = attrs.asdict(known[name])
    else:
        values = attrs.asdict(KnownKey(name, "", "", "ignored", f"Penstock ignores this key of Spark: {advice}"))
    if as_json:
        print_json(values)
        return
    console = terminal()
    console.print(Text(name, "bold"), soft_wrap=True)
    described = Table.grid(padding=(0, 2))
    for field in ("type", "default", "group", "meaning"):
        if (value := values[field]) != "" or (field == "default" and name in known):
            text = "required" if value is None else value.replace("`", "") or "(empty)"
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
    "--conf", "given", multiple=True, metavar="KEY=VALUE", callback=conf_pairs, help="A further key; repeatable."
)
@as_json_option
def check(file: Path | None, given: dict[str, str], as_json: bool) -> None:
    """Check configuration before a program starts.

    Finds unknown keys, keys that Penstock ignores and invalid values among the properties in FILE, by default in the
    configuration that programs get here. Keys of Spark itself are not checked.

    Exits with 1 if something is wrong.
    """
    properties = [] if file is None else read_properties(file)
    pairs = conf_here() if file is None else {each.key: each.value for each in properties}
    lines = {each.key: each.line for each in properties if each.key not in given}
    found = [
        attrs.evolve(each, line=lines.get(each.key, 0)) for each in problems(pairs | given, load_plugins(isolated=True))
    ]
    found = sorted([*_odd(properties), *found], key=lambda each: each.line)
    if as_json:
        print_json([attrs.asdict(each) for each in found])
    else:
        _print(found, "" if file is None else str(file), pairs | given)
    if found:
        raise click.exceptions.Exit(1)


def known_keys(plugins: Plugins) -> list[KnownKey]:
    """The keys of the core in the order of the documentation, then those of the plugins."""
    found = []
    for each in KEYS.values():
        default = f"the value of {KEYS[each.falls_back_to].name}" if each.falls_back_to else each.default
        found.append(KnownKey(each.name, each.type.replace("`", ""), default, each.group, each.help))
    level, meaning = KEYS["log_level"].name, "Lowest level that a component logs, such as `receiver_supervisor`."
    found.append(KnownKey(f"{level}.<component>", "log level", f"the value of {level}", "log level", meaning))
    for prefix, (owner, options) in _options(plugins).items():
        for option in fields_of(options):
            written = None if option.default is None else _as_configured(option.default)
            found.append(KnownKey(f"{prefix}{option.name}", option.type, written, owner, option.help))
    return found


def _as_configured(default: str) -> str:
    """The default of an option, which is Python's ``repr``, as configuration has it; empty for ``None``."""
    try:
        value = ast.literal_eval(default)
    except (SyntaxError, ValueError):
        return default  # such as "(hidden)"
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _names() -> list[str]:
    return [each.name for each in known_keys(load_plugins())]


def _groups() -> list[str]:
    return [each.group for each in known_keys(load_plugins())]


def problems(pairs: Mapping[str, str], plugins: Plugins) -> list[Problem]:
    """What is wrong with a configuration: values that are refused, and keys that have no effect."""
    found, valid = list[Problem](), dict(pairs)
    while True:
        try:
            settings = Settings.parse(valid)
            break
        except ConfigurationError as error:
            # Parsing ends at the first invalid value: without that key, it finds the next one.
            name = _named(valid, error)
            found.append(Problem(name, True, str(error)))
            if valid.pop(name, None) is None:
                return found
    # Which components there are is known where they run.
    known = plugins.known_options() | {f"{KEYS['log_level'].name}.": None}
    for unused in keys_without_effect(settings, known):
        found.append(Problem(unused.key, False, f"{unused.key}: {unused.reason}", unused.advice))
    estimator = settings.rate_estimator if settings.backpressure_enabled else None
    if estimator is not None:
        try:
            plugins.spec("rate_estimators", estimator, KEYS["rate_estimator"].name)
        except UnknownNameError as error:
            found.append(Problem(KEYS["rate_estimator"].name, True, str(error)))
    for prefix, (owner, options) in _options(plugins).items():
        given = settings.with_prefix(prefix)
        found += _refused_options(prefix, owner, options, given, is_used=owner == f"rate estimator {estimator}")
    return found


def _refused_options(
    prefix: str, owner: str, options: type, given: Mapping[str, str], *, is_used: bool
) -> Iterator[Problem]:
    """The options of a plugin with invalid values; ``is_used`` when those that are required must be configured."""
    described = {each.name: each for each in fields_of(options)}
    known = {name: text for name, text in given.items() if name in described}
    missing = [name for name, each in described.items() if each.default is None and name not in known]
    if not missing or is_used:
        try:
            keys = {name: f"{prefix}{name}" for name in known}
            structure_options(owner, options, known, keys, f"set {prefix}{{option}}")
        except ConfigurationError as error:
            yield Problem(_named(keys.values(), error), True, str(error))
        return
    # The program gives the missing ones, such as the host of a socket. Until then only types can be checked.
    types = get_type_hints(options, include_extras=True)
    fields = {
        field.name: attrs.field(type=types[field.name], alias=field.alias, repr=field.repr)
        for field in attrs.fields(options)
        if (field.alias or field.name) in known
    }
    try:
        keys = {name: f"{prefix}{name}" for name in known}
        structure_options(owner, attrs.make_class("GivenOptions", fields), known, keys)
    except ConfigurationError as error:
        yield Problem(_named(keys.values(), error), True, str(error))


def _named(names: Iterable[str], error: Exception) -> str:
    """The key that an error names, the longest if it begins like others; empty for none."""
    return max((name for name in names if name in str(error)), key=len, default="")


def _options(plugins: Plugins) -> dict[str, tuple[str, type]]:
    """Prefix of keys → what the options belong to, and their class."""
    found = {
        spec.prefix: (f"{spec.kind} {name}", spec.options)
        for hook in KINDS
        for name, spec in plugins.specs(hook).items()
        if spec.options is not None
    }
    for each in plugins.loaded:
        found |= {prefix: (f"plugin {each.name}", options) for prefix, options in each.options.items()}
    return found


def _odd(properties: Iterable[Property]) -> Iterator[Problem]:
    """Keys that Spark drops, and keys that are set twice."""
    lines: dict[str, int] = {}
    for each in properties:
        if not each.key.startswith("spark."):
            yield Problem(
                each.key, False, f"{each.key}: Spark drops keys that do not begin with spark.", line=each.line
            )
        if each.key in lines:
            text = f"{each.key}: also set in line {lines[each.key]}; the last line counts"
            yield Problem(each.key, False, text, line=each.line)
        lines[each.key] = each.line


def _print(found: list[Problem], file: str, pairs: Mapping[str, str]) -> None:
    console = terminal()
    for each in found:
        where = f"{file}:{each.line}: " if file and each.line else ""
        level = ("fail  ", "bold red") if each.is_error else ("warn  ", "yellow")
        console.print(Text.assemble(level, where, each.text), soft_wrap=True)
        if each.remedy:
            console.print(Text(f"      → {each.remedy}"), soft_wrap=True)
    ours = sum(name.startswith(("spark.penstock.", "spark.streaming.")) for name in pairs)
    result = f"{len(found)} problem{'s' * (len(found) != 1)}" if found else "ok"
    checked = f"{result}: {ours} keys of Penstock checked, {len(pairs) - ours} of Spark not"
    console.print(checked if pairs else "ok: no configuration is set here", soft_wrap=True)


def _listed(found: Iterable[KnownKey]) -> Iterator[RenderableType]:
    """Each key on a line of its own, to be copied, with its meaning below; a heading for each group."""
    group = ""
    for each in found:
        if each.group != group:
            yield Text("\n" * bool(group) + each.group, "bold")
            group = each.group
        default = ("required", "yellow") if each.default is None else (each.default or "(empty)", "")
        yield Text.assemble("  ", (each.name, "cyan"), "  ", default, (f"  {each.type}", "dim"), no_wrap=True)
        yield Padding(each.meaning.replace("`", ""), (0, 0, 0, 6), expand=False)
