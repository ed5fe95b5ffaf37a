"""Plugin checks PK-08 to PK-11 and PK-16: options are described, validated and named, and their secrets hidden."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import attrs

from penstock import ConfigurationError, ListenerContext
from penstock.spi import (
    Option,
    Plugins,
    Spec,
    UnknownNameError,
    structure_options,
    summary_of,
)
from penstock_testing.check import NotApplicable, check, fail
from penstock_testing.packaging_subject import PackagingSubject
from penstock_testing.subject import HOOKS

_SECRET = re.compile(r"passw|secret|token|credential|(api|access|private|account)_?key|passphrase", re.IGNORECASE)
_GARBAGE = "no such value"
#: The own options of Structured Streaming's source ``penstock``, in lower case, in which Spark passes them.
SOURCE_OPTIONS = frozenset(
    {
        "address",
        "availablenowtimeout",
        "blocks",
        "durable",
        "failondataloss",
        "initialrate",
        "maxblocksbytes",
        "maxbytespertrigger",
        "maxrowspertrigger",
        "partitionbytes",
        "quietperiod",
        "receiver",
    }
)


def _with_options(subject: PackagingSubject) -> list[tuple[str, Spec, list[Option]]]:
    """Kind, spec and options of everything that the plugin offers; not applicable without any option."""
    components = [(kind, spec, Option.of(spec.options)) for kind, spec in subject.specs_with_options()]
    if not any(options for _, _, options in components):
        raise NotApplicable("the plugin has no options")
    return components


def _given(subject: PackagingSubject) -> dict[str, Any]:
    """The options of the suite and of its feeder."""
    feeder = subject.suite.feeder
    return {**subject.suite.options, **(subject.enter(feeder()).options() if feeder else {})}


def _configured(subject: PackagingSubject, spec: Spec) -> dict[str, str]:
    """The options of listeners that the suite's configuration sets: a spec of theirs has the prefix of keys as name."""
    conf = subject.suite.conf
    return {key.removeprefix(spec.name): value for key, value in conf.items() if key.startswith(spec.name)}


class OptionChecks:
    """The checks of this module, as test methods."""

    @check(
        "PK-08", "must", change='declare each option with a type and metadata={"help": "what it means, with the unit"}'
    )
    def test_PK_08_options_are_described(self, subject: PackagingSubject) -> None:
        """Every option is declared, with a type and a help text.

        Purpose: users see an option only in ``penstock plugins show`` and in error messages.
        Condition: each option has a type other than Any, and a help text that is not empty; ``penstock_options`` of the
            plugin has the options classes of its listeners.
        """
        for prefix, options_class in _read_by_listeners(subject).items():
            if prefix not in subject.loaded().loaded[0].options:
                name = options_class.__name__
                fail(
                    f"the listeners read the options {name} below {prefix!r}, which the plugin does not declare",
                    prefix,
                    f"write penstock_options = {{{prefix!r}: {name}}} beside the hook",
                )
        for kind, spec, options in _with_options(subject):
            for option in options:
                if not option.help.strip():
                    fail(f"the option {option.name!r} of the {kind} {spec.name!r} has no help text", option.name)
                if option.type in {"", "Any", "object"}:
                    fail(f"the option {option.name!r} of the {kind} {spec.name!r} has no type", option.name)

    @check("PK-09", "must", change="read options through an attrs class: spec.options, or ListenerContext.options")
    def test_PK_09_unknown_option_refused(self, subject: PackagingSubject) -> None:
        """The plugin refuses an unknown option, and the error names the nearest known one.

        Purpose: if a misspelt option were ignored, its default would apply unnoticed.
        Condition: each raises UnknownNameError, whose message names the known option.
        """
        specs, plugin = subject.specs(), subject.loaded()
        listens = "listeners" in subject.facts().hooks
        if not specs and not listens:
            raise NotApplicable("the plugin offers nothing that could have options")
        if listens:
            _check_listeners(subject.facts().name, plugin)
        for kind, spec in specs:
            for option_name in [option.name for option in Option.of(spec.options)] or [""]:
                misspelt = option_name + option_name[-1:] if option_name else "no_such_option"
                try:
                    spec.read_options({misspelt: "1"})
                except UnknownNameError as error:
                    if option_name and option_name not in str(error):
                        fail(f"the error for {misspelt!r} does not name {option_name!r}: {error}", misspelt)
                else:
                    fail(f"the {kind} {spec.name!r} accepts the unknown option {misspelt!r}", misspelt)

    @check("PK-10", "must", change="declare types and attrs validators for the options, which refuse bad values")
    def test_PK_10_bad_value_refused_early(self, subject: PackagingSubject) -> None:
        """The plugin refuses an invalid value of an option when the options are read, with a ConfigurationError.

        Purpose: otherwise the receiver finds the bad value on an executor, long after the program's start.
        Condition: options of these types raise ConfigurationError; for other types the factory accepts the text, or
            raises ConfigurationError, too.
        """
        values = _given(subject)
        for kind, spec, options in _with_options(subject):
            values = {**values, **_configured(subject, spec)}
            types = get_type_hints(spec.options, include_extras=True) if spec.options else {}
            fields = {field.alias or field.name: types.get(field.name) for field in attrs.fields(spec.options or _None)}
            for option in options:
                base = _without_none(fields[option.name])
                refused = [_GARBAGE] if base in {int, float, bool} or get_origin(base) is Literal else []
                for value in [*refused, *(["nan"] if base is float else [])]:
                    if _takes(kind, spec, {**values, option.name: value}):
                        fail(
                            f"the option {option.name!r} of the {kind} {spec.name!r} accepts {value!r}",
                            f"{option.name}={value}",
                            "add a validator, such as attrs.validators.gt(0), which NaN fails"
                            if value == "nan"
                            else "",
                        )
                if not refused:
                    _takes(kind, spec, {**values, option.name: _GARBAGE})

    @check(
        "PK-11", "must", change="declare secrets with attrs.field(repr=False), and do not log or format their values"
    )
    def test_PK_11_secrets_stay_secret(self, subject: PackagingSubject) -> None:
        """No repr, log event or error message contains the value of a secret option.

        Purpose: logs and error reports have more readers than a secret may have.
        Condition: the text is in no repr of the options or the instance, no log event and no error message.
        """
        values, num_secrets = _given(subject), 0
        for kind, spec, options in _with_options(subject):
            values = {**values, **_configured(subject, spec)}
            types = get_type_hints(spec.options, include_extras=True) if spec.options else {}
            hidden = {field.alias or field.name for field in attrs.fields(spec.options or _None) if not field.repr}
            for option in options:
                named = _SECRET.search(option.name)
                if option.name not in hidden and named is None:
                    continue
                num_secrets += 1
                # A type of its own may hide its value: the texts below show whether it does.
                if option.name not in hidden and named and _without_none(types.get(option.name)) in {str, bytes}:
                    fail(
                        f"repr shows the secret option {option.name!r} of the {kind} {spec.name!r}; it counts as "
                        f"secret because its name contains {named.group()!r}",
                        option.name,
                        "declare it with attrs.field(repr=False); if it is no secret, such as the path of a file, "
                        "give it another name",
                    )
                marker = f"s3cret{subject.rng.getrandbits(64):x}"
                texts = _texts_with(kind, spec, {**values, option.name: marker})
                if places := [place for place, text in texts.items() if marker in text]:
                    fail(f"the value of the secret option {option.name!r} is in {' and in '.join(places)}", option.name)
        if not num_secrets:
            raise NotApplicable("the plugin has no secret option: none has repr=False or a name such as password")

    @check(
        "PK-16",
        "may",
        change="rename the option, or say in the README that it is written receiver.NAME in Structured Streaming",
    )
    def test_PK_16_option_names_are_free(self, subject: PackagingSubject) -> None:
        """No option of a receiver has the name of an option of the Structured Streaming source.

        Purpose: Spark passes the options of the source ``penstock`` and those of its receiver in one mapping, without
            case: the source takes its own names first.
        Condition: none is equal, without case.
        """
        receivers = [
            (spec, option)
            for kind, spec, options in _with_options(subject)
            for option in options
            if kind == Plugins.KINDS["receivers"].kind
        ]
        if not receivers:
            raise NotApplicable("the plugin offers no receiver with options")
        for spec, option in receivers:
            if option.name.lower() in SOURCE_OPTIONS:
                fail(
                    f"in Structured Streaming, .option({option.name!r}, ...) sets the source's own option; that of "
                    f"the receiver {spec.name!r} is written receiver.{option.name} there",
                    option.name,
                )


@attrs.frozen
class _None:
    """The options of a spec without options."""


def _without_none(kind: Any) -> Any:
    """The type of an optional value; the base of an annotated one."""
    if get_origin(kind) is Annotated:
        return _without_none(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        members = [member for member in get_args(kind) if member is not type(None)]
        return _without_none(members[0]) if len(members) == 1 else kind
    return kind


def _takes(kind: str, spec: Spec, values: Mapping[str, Any]) -> bool:
    """Whether the plugin accepts options and makes an instance with them."""
    option_names = {option.name for option in Option.of(spec.options)}
    try:
        _make(kind, spec, {name: value for name, value in values.items() if name in option_names})
    except ConfigurationError:
        return False
    except NotApplicable:
        raise
    except Exception as error:
        rejected = {
            name: value for name, value in values.items() if isinstance(value, float) and math.isnan(value)
        } or values
        fail(f"the {kind} {spec.name!r} raised {summary_of(error)} instead of a ConfigurationError", dict(rejected))
    return True


def _make(kind: str, spec: Spec, values: Mapping[str, Any]) -> tuple[Any, Any]:
    """Options and an instance."""
    if missing := [
        option.name for option in Option.of(spec.options) if option.default is None and option.name not in values
    ]:
        raise NotApplicable(f"the {kind} {spec.name!r} needs the option {missing[0]!r}: set options or a feeder")
    options = spec.read_options(values)
    arguments = [] if options is None and kind != "rate estimator" else [options]
    return options, spec.factory(*arguments, *([1000] if kind == "rate estimator" else []))


def _texts_with(kind: str, spec: Spec, values: Mapping[str, Any]) -> dict[str, str]:
    """Make an instance with options; return the texts that may contain a value, by place."""
    texts: dict[str, str] = {}
    records = _Records()
    logging.getLogger().addHandler(records)
    option_names = {option.name for option in Option.of(spec.options)}
    try:
        options, instance = _make(kind, spec, {name: value for name, value in values.items() if name in option_names})
        texts = {"the repr of the options": repr(options), "the repr of the instance": f"{instance!r} {instance}"}
    except NotApplicable:
        raise
    # Users also read the message of an error.
    except Exception as error:
        texts["an error message"] = str(error)
    finally:
        logging.getLogger().removeHandler(records)
    return texts | {"a log event": "\n".join(records.texts)}


class _Records(logging.Handler):
    """Collects the text of the logged events."""

    def __init__(self) -> None:
        super().__init__(logging.NOTSET)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(f"{record.getMessage()} {record.__dict__}")


class _Read(dict[str, str]):
    """A configuration that records the keys that were read."""

    def __init__(self, pairs: Mapping[str, str]) -> None:
        super().__init__(pairs)
        self.asked: set[str] = set()

    def __getitem__(self, key: str) -> str:
        self.asked.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.asked.add(str(key))
        return super().__contains__(key)


class _ConfiguredContext(ListenerContext):
    """A context with a configuration and without a program."""

    def __init__(self, pairs: Mapping[str, str]) -> None:
        self.read = _Read(pairs)
        #: Prefix of keys → the options class that was read.
        self.options_read: dict[str, type[Any]] = {}

    @property
    def configuration(self) -> Mapping[str, str]:
        return self.read

    def options(self, prefix: str, options: type[Any]) -> Any:
        self.options_read[prefix] = options
        configured = {key.removeprefix(prefix): value for key, value in self.read.items() if key.startswith(prefix)}
        return structure_options(prefix, options, configured)


# The other methods need a program: a hook that calls one raises.
_ConfiguredContext.__abstractmethods__ = frozenset()


def _check_listeners(plugin: str, plugins: Plugins) -> None:
    """Fail unless the hook ``listeners`` refuses an unknown option of its plugin, if it reads options at all."""
    prefix = f"spark.penstock.{plugin}."
    clean = _context({})
    if not (_listen(plugins, clean) and any(key.startswith(prefix) for key in clean.read.asked)):
        return
    with suppress(UnknownNameError):
        _listen(plugins, _context({f"{prefix}no_such_option": "1"}))
        fail(
            f"the hook listeners reads {', '.join(sorted(clean.read.asked))}, and ignores the unknown key "
            f"{prefix}no_such_option",
            f"{prefix}no_such_option=1",
            f"read the options with context.options({prefix!r}, Options)",
        )


def _read_by_listeners(subject: PackagingSubject) -> dict[str, type[Any]]:
    """Prefix of keys → the options class that the hook ``listeners`` reads below it."""
    if subject.suite.kind in HOOKS or "listeners" not in subject.facts().hooks:
        return {}
    clean = _context(subject.suite.conf)
    with suppress(UnknownNameError):
        _listen(subject.loaded(), clean)
    return clean.options_read


def _context(pairs: Mapping[str, str]) -> _ConfiguredContext:
    return _ConfiguredContext(pairs)  # type: ignore[abstract]  # see above


def _listen(plugins: Plugins, context: ListenerContext) -> bool:
    """Call the hook ``listeners``; return whether it needs no program."""
    try:
        for result in plugins.manager.hook.listeners(context=context):
            list(result)
    except UnknownNameError:
        raise
    except Exception:
        return False
    return True
