"""Writes docs/reference/ from the code: ``python -m tests.docs.write_reference``."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import get_args

import click
from tests.helpers.markdown import attributes, fields, names, paragraph, summary, table

import penstock
import penstock_tables as tables
import penstock_testing as testing
from penstock import hookspecs, spi
from penstock.listen import events
from penstock.plugins import listener_context
from penstock_cli.command import penstock as command
from penstock_cli.shared import COMMANDS_GROUP, DEMOS_GROUP
from penstock_testing.check import SUITES_GROUP

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
_NOTE = "<!-- Written by `python -m tests.docs.write_reference`. -->\n"
_HOOK_GROUPS = {
    "Offering plugins": ("receivers", "input_streams", "rate_estimators", "listeners"),
    "Storing blocks": ("store",),
    "DataFrames": ("dataframes", "columns"),
    "State": ("state",),
}
_WIDTH = 90  # of a code block of the site
#: Group → the public names in it.
_API: dict[ModuleType, dict[str, tuple[str, ...]]] = {
    penstock: {
        "Programs": (
            "StreamingContext",
            "DStream",
            "DataFrameStream",
            "GroupedDataFrameStream",
            "GroupedDStream",
            "StateSpec",
            "State",
            "StorageLevel",
            "StreamingContextState",
            "OutputMetadata",
        ),
        "Receivers": (
            "Receiver",
            "ThreadReceiver",
            "AsyncReceiver",
            "ReceiverHost",
            "BlockSink",
        ),
        "Listeners": ("StreamingListener", "ListenerContext"),
        "Plugins": (
            "hookimpl",
            "ReceiverSpec",
            "RateEstimatorSpec",
            "RateEstimator",
            "InputStreamSpec",
            "InputSource",
            "RecoverableSource",
            "DatedSource",
            "SourceBatch",
            "ArrowInput",
            "ArrowReader",
            "Block",
            "StoredBlock",
        ),
        "Errors": (
            "PenstockError",
            "ConfigurationError",
            "StreamingStateError",
            "BatchFailedError",
            "ReceiverFailedError",
            "CheckpointError",
            "ReceiverStoppedError",
            "StoreError",
            "SchemaError",
        ),
    },
    tables: {
        "Outputs": ("to_delta", "to_iceberg", "to_sql", "to_files"),
        "Errors": (
            "OutputOwnedError",
            "UnknownBatchError",
            "TableSchemaError",
            "RowsRefusedError",
            "TableWriteError",
            "CommitConflictError",
        ),
    },
    testing: {
        "Harnesses": ("StreamHarness", "ReceiverHarness", "ManualClock"),
        "Suites": (
            "ReceiverSuite",
            "RateEstimatorSuite",
            "ListenerSuite",
            "BlockStoreSuite",
            "PluginSuite",
            "ConformanceSuite",
            "Capabilities",
        ),
        "Running checks": (
            "run_checks",
            "run_suite",
            "all_checks",
            "checks_for",
            "Check",
            "CheckFailure",
            "Report",
            "Result",
        ),
        "Feeders": ("Feeder", "TcpFeeder", "FileFeeder", "MemoryFeeder", "MemorySource", "MemoryBrokerFeeder"),
        "A broker in memory": ("MemoryBroker", "BrokerSession", "Delivery", "Message", "DeadLetter"),
        "Listeners and leaks": (
            "FakeListenerContext",
            "batch_info",
            "receiver_info",
            "listener_events",
            "ListenerProbe",
            "Backend",
            "MemoryBackend",
            "LeakMeter",
        ),
        "Simulated workloads": (
            "WORKLOADS",
            "Workload",
            "WorkloadRun",
            "SimulatedBatch",
            "simulate",
            "MakeEstimator",
            "report",
            "WorkloadReport",
            "processed",
            "draw",
        ),
        "The engine in a simulator": ("Simulation", "SimulationOutcome", "SimulatedFault", "FAULTS"),
        "Logging": ("throttle",),
    },
    spi: {
        "Receivers": ("check_picklable", "RelaunchPolicy"),
        "Rate control": ("GuardedEstimator", "attributed_ms"),
        "Blocks": (
            "BlockReference",
            "BlockServer",
            "open_block_file",
            "write_block_file",
            "read_block",
            "BlockRecords",
            "LocalBlockHandler",
            "encode",
            "records",
            "is_pickled",
            "is_columnar",
            "pack",
            "Packable",
            "Token",
        ),
        "Operations on streams": (
            "Node",
            "ForEachDStream",
            "MapPartitionsDStream",
            "ShuffledDStream",
            "DStreamGraph",
            "InputDStream",
            "node_of",
            "BatchInput",
            "BlocksInput",
            "known_partitions",
            "with_time",
        ),
        "State": (
            "StatefulDStream",
            "StateOptions",
            "WindowOptions",
            "MapWithStateDStream",
            "merge_by_key",
            "MISSING",
        ),
        "Sources": ("split_lines", "LineRules", "ErrorCounts"),
        "Files": (
            "atomic_write",
            "make_private",
            "own_directory",
            "executor_directory",
            "absolute_location",
            "is_remote",
            "connect",
            "Directory",
            "Appender",
        ),
        "Options, logs and errors": (
            "structure_options",
            "structure",
            "unstructure",
            "PositiveBytes",
            "PositiveDurationS",
            "TextForm",
            "get_logger",
            "set_level",
            "throttle",
            "text_of",
            "summary_of",
            "shown",
            "shortened",
            "pickle_value",
            "printable",
            "reason",
            "UnknownNameError",
            "ResultTypeError",
            "ReceiverStuckError",
        ),
        "Installed plugins": (
            "Plugins",
            "LoadedPlugin",
            "check_core_version",
            "Spec",
            "Option",
            "GROUP",
            "API_VERSION",
        ),
        "Configuration": (
            "Settings",
            "KEYS",
            "keys_without_effect",
            "conf_here",
            "read_properties",
            "secret_names",
            "Redaction",
        ),
        "Listeners": ("HOOK_OF", "Event", "register", "operation_of_tags"),
        "The process": ("Clock", "EngineThread"),
        "Public names": ("lazy_exports",),
        "Checkpoint directories": (
            "CheckpointStore",
            "Checkpoint",
            "BLOCK_LOG",
            "COMPLETED_OUTPUTS",
            "read_log",
            "Allocations",
            "stream_directory",
        ),
    },
}
_SPI = (
    "For another engine, and for plugins that run receivers, serve or read blocks, add operations or state to streams, "
    "or show what is installed or saved. It is what they need from the runtime, beside the contract in `penstock`; a "
    "program needs none of it. The last column names the plugins of this repository that use a name. It changes only "
    "with a new minor version and an entry in the changelog."
)
_SPI_TOPICS = {
    "Receivers": "A receiver as it arrives on its executor.",
    "Rate control": "Create an installed estimator whose errors are contained.",
    "Blocks": "Write, read and serve the Arrow files that hold records, and pack them into partitions.",
    "Operations on streams": "The nodes of the graph, and the input of a batch before it becomes an RDD.",
    "State": "A stream that computes an RDD from the previous one, and the options of its operators.",
    "Sources": "Lines of text, and a queue between a client's callbacks and a receiver.",
    "Files": "Directories of every file system that Arrow knows, and atomic writes.",
    "Options, logs and errors": "Option types, structured options and JSON values, loggers and the texts of messages.",
    "Installed plugins": "What is loaded, and the options that each plugin offers.",
    "Configuration": "The core's keys, the settings in force, the files that Spark reads, and what is secret.",
    "Listeners": "Events by class, and a listener as the listener bus calls it.",
    "The process": "Clocks and the engine's threads.",
    "Public names": "For modules that import their public names when they are first used.",
    "Checkpoint directories": "What a checkpoint and its logs contain.",
}
# Names that docs/reference/events.md describes.
_EVENTS = tuple(kind.__name__ for kind in get_args(events.Event))
_INFOS = (
    events.BatchInfo,
    events.StreamInputInfo,
    events.OutputOperationInfo,
    events.ReceiverInfo,
    events.SourceStatus,
    events.StoreTimes,
    events.PastError,
    listener_context.ReceiverStreamInfo,
    listener_context.DStreamInfo,
    listener_context.StorageInfo,
    penstock.ListenerCounts,
)
#: Names that are values, or somebody else's.
_VALUES = {
    "StorageLevel": "PySpark's. [Storage levels](../writing-a-receiver.md#storage-levels) says what they mean here",
    "hookimpl": "Decorator that marks a function or method as the implementation of a hook",
    "WORKLOADS": "The simulated workloads by name",
    "FAULTS": "The faults of simulations by name, with what happens",
    "MakeEstimator": "Type of a function that gets the batch interval in ms and returns a rate estimator",
    "throttle": "Counts repeated log events; call `throttle.reset()` before each test that checks a log",
    "BatchInput": "Type of the inputs of a batch: a `BlocksInput`, an `ArrowInput` or an RDD",
    "PositiveBytes": "Type of an option that is a size, such as `64m`",
    "PositiveDurationS": "Type of an option that is a time, in seconds unless it has a unit",
    "API_VERSION": "The version of the plugin contract, which a plugin may declare as `penstock_api`",
    "Event": "Type of every event that a listener may get",
    "HOOK_OF": "Class of an event → name of its callback",
    "GROUP": "The entry-point group of plugins",
    "MISSING": "Stands for a value that does not exist, where `None` may be one; the same object after pickling",
    "KEYS": "The keys of the core, by the attribute of `Settings` that holds the value",
}


def pages() -> dict[str, str]:
    """Each file's name and text."""
    return {
        name: f"# {title}\n\n{_NOTE}\n" + "\n".join(parts).rstrip() + "\n"
        for name, title, parts in (
            ("hooks.md", "Hooks", _hooks()),
            ("events.md", "Events", _events()),
            ("cli.md", "Command line", _cli()),
            ("api.md", "API", _api()),
        )
    }


def _hooks() -> Iterator[str]:
    found = hook_functions()
    listening = tuple(name for name in found if name.startswith("on"))
    yield paragraph(
        "A plugin is a module, class or object that an entry point of the group `penstock` names. It "
        "implements any of these hooks with `@penstock.hookimpl`. Hooks are called per plugin, per block "
        "or per event, never per record. [Writing a receiver](../writing-a-receiver.md#a-plugin) and "
        "[Writing a listener](../writing-a-listener.md) have examples; `penstock plugins new` writes a "
        "plugin that works."
    )
    yield "Three attributes of that object are optional:\n"
    yield table(
        ("attribute", "meaning"),
        [
            (
                "`penstock_api`",
                f"the version of this contract that the plugin was written for, now `{hookspecs.API_VERSION!r}`. "
                "A plugin with another version is left out",
            ),
            (
                "`penstock_options`",
                "dictionary: prefix of configuration keys → options class that its listeners read there with "
                "`ListenerContext.options`",
            ),
            (
                "`penstock_production`",
                "dictionary: configuration key → its default in the profile `production`, as text",
            ),
        ],
    )
    yield "Further entry-point groups:\n"
    yield table(
        ("group", "names"),
        [
            (f"`{SUITES_GROUP}`", "the conformance suite of a plugin, for `penstock plugins check`"),
            (f"`{COMMANDS_GROUP}`", "a subcommand of `penstock`: a click command"),
            (f"`{DEMOS_GROUP}`", "a function that runs the source of a receiver, for `penstock demo NAME`"),
        ],
    )
    for title, group in {**_HOOK_GROUPS, "Listening": listening}.items():
        yield f"## {title}\n"
        if group is listening:
            yield paragraph(
                "A module or object that implements these hooks itself is one listener. The hook "
                "`listeners(context)` may return any number of objects with methods of these names. "
                "[Events](events.md) lists the fields."
            )
            callbacks = vars(hookspecs.StreamingListener)
            yield table(("hook", "when"), [(f"`{found[name]}`", summary(callbacks[name])) for name in group])
            continue
        for name in group:
            function = getattr(hookspecs, name)
            yield f"### `{found[name]}`\n"
            yield inspect.getdoc(function).replace("``", "`") + "\n"  # type: ignore[union-attr]  # each has one
            if function.penstock_spec["firstresult"]:
                yield "The first plugin that returns a value other than `None` answers.\n"


def hook_functions() -> dict[str, str]:
    """Every hook with its signature, in the order of the file."""
    tree = ast.parse(inspect.getsource(hookspecs))
    functions = [*tree.body, *(node for part in tree.body if isinstance(part, ast.ClassDef) for node in part.body)]
    return {
        node.name: f"{node.name}({_arguments(node)}) -> {ast.unparse(node.returns)}"
        for node in functions
        if isinstance(node, ast.FunctionDef) and node.returns is not None
    }


def _arguments(hook: ast.FunctionDef) -> str:
    return ast.unparse(hook.args).removeprefix("self, ").replace("events.", "")


def _events() -> Iterator[str]:
    yield paragraph(
        "Every listener gets these events: one that `ssc.addStreamingListener` adds, and one of a plugin. "
        "Names are Spark's; times are milliseconds since the epoch, delays milliseconds, `None` is not "
        "known (yet). [Writing a listener](../writing-a-listener.md) shows how to use them."
    )
    kinds = get_args(events.Event)
    yield table(
        ("callback", "event", "fields", "when"),
        [
            (f"`{events.HOOK_OF[kind]}`", f"`{kind.__name__}`", names(kind), summary(kind))
            for kind in sorted(kinds, key=_order)
        ],
    )
    for kind in (*(each for each in sorted(kinds, key=_order) if attributes(each)), *_INFOS):
        yield f"## `{kind.__name__}`\n"
        yield f"{summary(kind)}\n"
        yield table(("field", "meaning"), list(fields(kind)))


def _order(kind: type) -> int:
    return list(hook_functions()).index(events.HOOK_OF[kind])


def _cli() -> Iterator[str]:
    yield paragraph(
        "`penstock` checks a machine, runs programs, and lists, checks and creates plugins. Every command "
        "prints this text with `--help`."
    )
    yield from _commands("penstock", command, None)


def _commands(name: str, each: click.Command, parent: click.Context | None) -> Iterator[str]:
    settings = {**each.context_settings, "terminal_width": _WIDTH, "max_content_width": _WIDTH}
    context = click.Context(each, info_name=name.rpartition(" ")[2], parent=parent, **settings)
    yield f"## {name}\n"
    yield f"```text\n{each.get_help(context).rstrip()}\n```\n"
    if isinstance(each, click.Group):
        for inner in each.list_commands(context):
            found = each.get_command(context, inner)
            assert found is not None
            yield from _commands(f"{name} {inner}", found, context)


def _api() -> Iterator[str]:
    yield paragraph(
        "The public names, from their docstrings. Plugins import `penstock`, `penstock.spi` and, in "
        "tests, `penstock_testing`; every other module may change without notice. [Events](events.md) has "
        "the events and infos, [Hooks](hooks.md) the hooks."
    )
    for module, groups in _API.items():
        yield f"## {module.__name__}\n"
        if module is spi:
            yield paragraph(_SPI)
        for title, group in groups.items():
            yield f"### {title}\n"
            if module is spi:
                yield paragraph(_SPI_TOPICS[title])
            rows = [(f"`{name}`", _is(module, name)) for name in group]
            if module is spi:
                users = [", ".join(_SPI_USERS[name]) for name in group]
                yield table(("name", "is", "used by"), [(*row, each) for row, each in zip(rows, users, strict=True)])
            else:
                yield table(("name", "is"), rows)
            yield from (f"::: {module.__name__}.{name}\n" for name in group if name not in _VALUES)


def spi_users() -> dict[str, list[str]]:
    """The first-party plugins that import each name of ``penstock.spi``, by name."""
    users: dict[str, set[str]] = {name: set() for name in dir(spi)}
    for file in (FOLDER.parents[1] / "plugins").glob("*/src/**/*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "penstock.spi":
                for alias in node.names:
                    users[alias.name].add(file.relative_to(FOLDER.parents[1] / "plugins").parts[0])
    return {name: sorted(plugins) for name, plugins in users.items()}


_SPI_USERS = spi_users()


def _is(module: ModuleType, name: str) -> str:
    return _VALUES.get(name) or summary(getattr(module, name))


def described() -> Mapping[ModuleType, list[str]]:
    """The public names of each module that the reference describes, each as often as it does."""
    return {
        module: [
            *(name for group in groups.values() for name in group),
            *((*_EVENTS, *(kind.__name__ for kind in _INFOS)) if module is penstock else ()),
        ]
        for module, groups in _API.items()
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, text in pages().items():
        (FOLDER / file).write_text(text, encoding="utf-8")
