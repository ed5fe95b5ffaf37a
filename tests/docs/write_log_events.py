"""Writes the lists of docs/log-events.md from the calls in the code: ``python -m tests.docs.write_log_events``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "log-events.md"
START = "## Events\n"
LEVELS = ("debug", "info", "warning", "error", "exception", "critical")
# Logging itself, and names in calls that only change how an event is logged.
NO_FIELDS = {"throttle_s", "exc_info"}
SKIPPED = {"core/src/penstock/runtime/log.py"}
# The life cycles of a receiver: the component that carries out the log effects, its fields, and the record, whose
# properties are fields of the events.
LIFECYCLES = {
    "core/src/penstock/track/relaunch_lifecycle.py": (
        "receiver_tracker",
        ("stream_id", "receiver_id", "epoch"),
        "core/src/penstock/track/receiver_tracking_info.py",
    ),
    "core/src/penstock/receive/receiver_lifecycle.py": (
        "receiver_supervisor",
        ("stream_id",),
        "core/src/penstock/receive/running_receiver.py",
    ),
}


@frozen(order=True)
class LogEvent:
    """One event that the code logs."""

    component: str
    event: str
    level: str
    fields: tuple[str, ...]
    is_rate_limited: bool


@cache
def log_events() -> tuple[LogEvent, ...]:
    """Every event in the core and its plugins, in order; equal ones once."""
    found: set[LogEvent] = set()
    for path in sorted([*ROOT.glob("core/src/**/*.py"), *ROOT.glob("plugins/*/src/**/*.py")]):
        name = path.relative_to(ROOT).as_posix()
        text = path.read_text(encoding="utf-8")
        if name not in SKIPPED and "log" in text:  # without the word, no call can match
            found |= set(_Module(name, ast.parse(text)).events())
    return tuple(sorted(found))


class _Module:
    def __init__(self, name: str, tree: ast.Module) -> None:
        self._name = name
        self._component = ""
        self._bound = tuple[str, ...]()
        if name in LIFECYCLES:
            self._component, self._bound, record = LIFECYCLES[name]
            tree.body += ast.parse((ROOT / record).read_text(encoding="utf-8")).body
        self._nodes = list(ast.walk(tree))
        self._calls = [node for node in self._nodes if isinstance(node, ast.Call)]
        self._partials = self._partial_calls()
        for call in self._calls:
            match call.func:
                case ast.Name("get_logger"):
                    self._component = ast.literal_eval(call.args[0])
                case ast.Attribute(ast.Name("log"), "bind"):
                    self._bound = tuple(each.arg for each in call.keywords if each.arg)

    def events(self) -> Iterator[LogEvent]:
        """The events that this module logs.

        Raises:
            ValueError: the event of a call is not in the source as text.
        """
        for call in self._calls:
            if (parts := self._parts(call)) is None:
                continue
            level, event = parts
            assert self._component, f"{self._name} logs without get_logger"
            names = [name for each in call.keywords for name in self._names(each)]
            is_bound = "self" in ast.unparse(call.func) or self._name in LIFECYCLES
            fields = dict.fromkeys([*(self._bound if is_bound else ()), *names])
            rate_limited = "throttle_s" in fields
            kept = tuple(field for field in fields if field not in NO_FIELDS)
            level = "error, with traceback" if level == "exception" or "exc_info" in fields else level
            for text in _texts(event, self._name):
                yield LogEvent(self._component, text, level, kept, rate_limited)

    def _parts(self, call: ast.Call) -> tuple[str, ast.expr] | None:
        """Level and event of a call that logs."""
        match call.func:
            case ast.Attribute(ast.Name("log") | ast.Attribute(_, "_log"), level) if level in LEVELS and call.args:
                return level, call.args[0]
            case ast.Attribute(_, "_log") if self._name in LIFECYCLES:
                return ast.literal_eval(call.args[0]), call.args[1]
            case ast.Name(name) if (partial := self._partials.get(name)) is not None:
                # `warn = partial(log.warning, host=…)`, called further down.
                call.keywords = [*partial.keywords, *call.keywords]
                return str(getattr(partial.args[0], "attr", "")), call.args[0]
        return None

    def _partial_calls(self) -> dict[str, ast.Call]:
        """Names that a call like ``partial(log.warning, …)`` is assigned to."""
        found: dict[str, ast.Call] = {}
        for node in self._nodes:
            match node:
                case ast.Assign([ast.Name(target)], ast.Call(ast.Name("partial"), [log, *_]) as made):
                    if ast.unparse(log).startswith("log."):
                        found.setdefault(target, made)
        return found

    def _names(self, keyword: ast.keyword) -> list[str]:
        return [keyword.arg] if keyword.arg else self._keys(keyword.value)

    def _keys(self, value: ast.expr) -> list[str]:
        """The keys of a dictionary that is written in this module."""
        match value:
            case ast.Dict(keys, values):
                pairs = zip(keys, values, strict=True)
                named = [[ast.literal_eval(key)] if key else self._keys(inner) for key, inner in pairs]
                return [name for names in named for name in names]
            case ast.IfExp(_, first, second):
                return [*self._keys(first), *self._keys(second)]
            case ast.Name(name) | ast.Attribute(_, name) | ast.Call(ast.Attribute(_, name)):
                return [key for dictionary in self._dictionaries(name) for key in self._keys(dictionary)]
        raise ValueError(f"{self._name}: fields of a log event that are not in the source: {ast.unparse(value)}")

    def _dictionaries(self, name: str) -> Iterator[ast.expr]:
        for node in self._nodes:
            match node:
                case ast.Assign([ast.Name(target)], (ast.Dict() | ast.IfExp(_, ast.Dict(), ast.Dict())) as value) if (
                    target == name
                ):
                    yield value
                case ast.FunctionDef(function) if function == name:
                    yield from (each.value for each in ast.walk(node) if isinstance(each, ast.Return) and each.value)


def _texts(event: ast.expr, where: str) -> list[str]:
    match event:
        case ast.Constant(str() as text):
            return [text]
        case ast.IfExp(_, first, second):
            return [*_texts(first, where), *_texts(second, where)]
    raise ValueError(f"{where}: a log event that is not text in the source: {ast.unparse(event)}")


def lists() -> str:
    """The generated part of the page: one list for each component."""
    events = log_events()
    components = sorted({event.component for event in events})
    head = f"{len(events)} events of {len(components)} components, each with its level and further fields.\n"
    parts = [START, head]
    common = common_fields()
    for component in components:
        of_component = (event for event in events if event.component == component)
        parts += [f"### `{component}`\n", *(_item(event, common) for event in of_component), ""]
    return "\n".join(parts)


def common_fields() -> set[str]:
    """The fields that the page describes once, for all events."""
    section = PAGE.read_text(encoding="utf-8").partition("\n## Common fields\n")[2].partition("\n## ")[0]
    return {
        name for row in section.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1] if "|" in row else "")
    }


def _item(event: LogEvent, common: set[str]) -> str:
    level = event.level + (", rate-limited" if event.is_rate_limited else "")
    fields = " ".join(f"`{name}`" for name in event.fields if name not in common)
    return f"- **{event.event}** ({level}){f': {fields}' if fields else ''}"


if __name__ == "__main__":
    prose = PAGE.read_text(encoding="utf-8").partition(START)[0]
    PAGE.write_text(prose + lists(), encoding="utf-8")
