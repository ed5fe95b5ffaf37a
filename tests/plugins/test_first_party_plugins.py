"""The first-party plugins: what they offer, how their options are read, refused and described."""

from __future__ import annotations

import importlib.metadata
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock import InputSource, RateEstimator, Receiver
from penstock.errors import ConfigurationError, UnknownNameError
from penstock.plugins.discovery import Plugins
from penstock.plugins.specs import Option, Spec

FOLDER = Path(__file__).parents[2] / "plugins"
OFFERS = {
    "kafka": {"receivers": ["kafka"]},
    "nats": {"receivers": ["nats"]},
    "file": {"receivers": ["file"], "input_streams": ["binary-records", "file", "text-file"]},
    "mqtt": {"receivers": ["mqtt"]},
    "http": {"receivers": ["sse", "webhook", "websocket"]},
    "rabbitmq": {"receivers": ["rabbitmq"]},
    "rate": {"rate_estimators": ["fixed", "model", "pid"]},
    "redis": {"receivers": ["redis"]},
    "socket": {"receivers": ["raw-socket", "socket", "socket-stream"]},
    "synthetic": {"receivers": ["synthetic"]},
}
RECEIVER, STREAM, ESTIMATOR = "receivers", "input_streams", "rate_estimators"
SERVER = {"host": "h", "port": "1"}
TOPIC = {"bootstrap_servers": "h:9092", "topics": "t", "group_id": "g"}


def load(plugin: str) -> Plugins:
    own = [
        entry_point for entry_point in importlib.metadata.entry_points(group="penstock") if entry_point.name == plugin
    ]
    return Plugins(strict=True, entry_points=own)


PLUGINS = {name: load(name) for name in OFFERS}
SPECS: list[tuple[str, str, Spec]] = [
    (plugin, hook, spec)
    for plugin in PLUGINS
    for hook in Plugins.KINDS
    for spec in PLUGINS[plugin].specs(hook).values()
]


def named(hook: str, name: str) -> Spec:
    (found,) = [spec for _, kind, spec in SPECS if kind == hook and spec.name == name]
    return found


def made(hook: str, name: str, options: dict[str, Any]) -> Any:
    spec = named(hook, name)
    values = spec.read_options(options)
    return spec.factory(values, 1000) if hook == ESTIMATOR else spec.factory(values)


@pytest.mark.parametrize("plugin", OFFERS)
def test_entry_point_offers_what_the_plugin_documents(plugin: str) -> None:
    offered = {hook: sorted(PLUGINS[plugin].specs(hook)) for hook in Plugins.KINDS}
    assert {hook: names for hook, names in offered.items() if names} == OFFERS[plugin]


@pytest.mark.parametrize(
    ("hook", "name", "options"),
    [
        (STREAM, "text-file", {"directory": "/d"}),
        (STREAM, "text-file", {"directory": "d/*", "new_files_only": "false", "max_files_per_batch": "7"}),
        (
            STREAM,
            "binary-records",
            {"directory": "file:///d", "record_length": "100", "max_bytes_per_batch": "1000000"},
        ),
        (STREAM, "file", {"directory": "/d"}),
        (STREAM, "file", {"directory": "/d", "filter": None, "read": None, "new_files_only": True}),
        (STREAM, "file", {"directory": "/d", "filter": str.isalpha, "read": list, "new_files_only": False}),
        (RECEIVER, "kafka", {**TOPIC, "settings": "fetch.min.bytes=1000,client.rack=a"}),
        (RECEIVER, "kafka", {**TOPIC, "start": "2026-11-24T12:00:00", "columns": "key,value,timestamp"}),
        (RECEIVER, "file", {"path": "/a"}),
        (RECEIVER, "file", {"path": "/a/*.log", "start": "end", "poll_interval": "0.5", "max_line_bytes": "100"}),
        (RECEIVER, "file", {"path": "a", "offset_file": "b", "encoding_errors": "refuse"}),
        (RECEIVER, "socket", {"host": "h", "port": 1}),
        (RECEIVER, "socket", {"host": "h", "port": "65535", "encoding_errors": "refuse", "max_line_bytes": "1000"}),
        (RECEIVER, "socket", {"host": "::1", "port": 9999, "connect_timeout": "0.5"}),
        (RECEIVER, "mqtt", {"topics": "a/+,b/#", "client_id": "c"}),
        (RECEIVER, "rabbitmq", {"queue": "a"}),
        (RECEIVER, "rabbitmq", {"queue": "a", "reject": "true", "max_deliveries": "3"}),
        (RECEIVER, "raw-socket", {"host": "h", "port": "1"}),
        (RECEIVER, "raw-socket", {"host": "h", "port": 1, "max_frame_bytes": "1073741824", "connect_timeout": 3600}),
        (RECEIVER, "socket-stream", {"host": "h", "port": "1", "converter": iter}),
        (RECEIVER, "socket-stream", {"host": "h", "port": 1, "converter": lambda file: file, "connect_timeout": "1"}),
        (RECEIVER, "webhook", {"port": "8080"}),
        (RECEIVER, "webhook", {"port": 1, "host": "0.0.0.0", "token": "env:T", "columns": "value,path"}),
        (RECEIVER, "webhook", {"port": 1, "signature": "stripe", "signature_key": "file:/k", "linger": "0"}),
        (RECEIVER, "websocket", {"url": "wss://h/p", "subscribe": "{}", "columns": "value,timestamp"}),
        (RECEIVER, "sse", {"url": "https://h/p?q=1", "last_event_id": "7", "token": "env:T"}),
        (RECEIVER, "nats", {"stream": "s", "consumer": "c"}),
        (RECEIVER, "nats", {"stream": "s", "consumer": "c", "subjects": "s.*, s.a.>", "ack_wait": "5", "tls": "true"}),
        (RECEIVER, "redis", {"streams": "s"}),
        (RECEIVER, "redis", {"streams": "s, t", "start": "1700000000000-3", "columns": "value,id", "fetch_size": "7"}),
        (RECEIVER, "redis", {"streams": "s", "password": "env:NAME", "tls": "true", "value_as": "json", "min_idle": 3}),
        (RECEIVER, "synthetic", {}),
        (RECEIVER, "synthetic", {"rate": "2.5", "shape": "pairs", "seed": "8", "total": "9"}),
        (ESTIMATOR, "pid", {"proportional": "0.5", "minRate": "1"}),
        (ESTIMATOR, "model", {"share": "0.5", "initial_rate": "7", "min_rate": "2"}),
        (ESTIMATOR, "fixed", {"rate": "5"}),
    ],
)
def test_valid_options_create_the_object(hook: str, name: str, options: dict[str, Any]) -> None:
    kind: Any = {RECEIVER: Receiver, STREAM: InputSource, ESTIMATOR: RateEstimator}[hook]
    assert isinstance(made(hook, name, options), kind)


@pytest.mark.parametrize(
    ("hook", "name", "options", "option"),
    [
        (STREAM, "text-file", {}, "directory"),
        (RECEIVER, "nats", {"stream": "s"}, "consumer"),
        (RECEIVER, "nats", {"stream": "s", "consumer": "c", "start": "yesterday"}, "start"),
        (RECEIVER, "kafka", {"topics": "t", "group_id": "g"}, "bootstrap_servers"),
        (RECEIVER, "kafka", {**TOPIC, "topic_pattern": "t.*"}, "topic_pattern"),
        (RECEIVER, "kafka", {**TOPIC, "start": "yesterday"}, "start"),
        (RECEIVER, "kafka", {**TOPIC, "value_as": "avro"}, "schema_registry"),
        (RECEIVER, "kafka", {**TOPIC, "sasl_mechanism": "PLAIN"}, "sasl_user"),
        (RECEIVER, "kafka", {**TOPIC, "settings": "sasl.oauthbearer.client.secret=x"}, "settings"),
        (RECEIVER, "kafka", {**TOPIC, "settings": "group.id=x"}, "group_id"),
        (STREAM, "text-file", {"directory": ""}, "directory"),
        (STREAM, "text-file", {"directory": "/d", "max_files_per_batch": "-1"}, "max_files_per_batch"),
        (STREAM, "text-file", {"directory": "/d", "max_bytes_per_batch": "1.5"}, "max_bytes_per_batch"),
        (STREAM, "text-file", {"directory": "/d", "new_files_only": "maybe"}, "new_files_only"),
        (STREAM, "text-file", {"directory": "nosuch://d"}, "nosuch://d"),
        (STREAM, "binary-records", {"directory": "/d"}, "record_length"),
        (STREAM, "binary-records", {"directory": "/d", "record_length": 0}, "record_length"),
        (STREAM, "file", {"directory": "/d", "filter": "*.txt"}, "filter"),
        (STREAM, "file", {"directory": "/d", "read": 7}, "read"),
        (RECEIVER, "file", {}, "path"),
        (RECEIVER, "file", {"path": ""}, "path"),
        (RECEIVER, "file", {"path": "/a", "start": "middle"}, "start"),
        *[(RECEIVER, "file", {"path": "/a", "poll_interval": bad}, "poll_interval") for bad in (0, math.nan, math.inf)],
        *[(RECEIVER, "file", {"path": "/a", "max_line_bytes": bad}, "max_line_bytes") for bad in (0, 1 << 31)],
        (RECEIVER, "file", {"path": "/a", "encoding_errors": "ignore"}, "encoding_errors"),
        (RECEIVER, "socket", {"host": "", "port": 1}, "host"),
        *[(RECEIVER, name, {"host": "h"}, "port") for name in ("socket", "raw-socket", "socket-stream")],
        (RECEIVER, "mqtt", {"client_id": "c"}, "topics"),
        (RECEIVER, "rabbitmq", {}, "queue"),
        (RECEIVER, "rabbitmq", {"queue": "a", "prefetch": 1}, "prefetch"),
        (RECEIVER, "mqtt", {"topics": "a"}, "client_id"),
        (RECEIVER, "mqtt", {"topics": "a", "client_id": "c", "qos": 2}, "qos"),
        *[(RECEIVER, name, {"port": 1}, "host") for name in ("socket", "raw-socket", "socket-stream")],
        *[(RECEIVER, "socket", {"host": "h", "port": bad}, "port") for bad in (0, 65536, "http")],
        (RECEIVER, "raw-socket", {"host": "h", "port": -1}, "port"),
        (RECEIVER, "socket", {**SERVER, "encoding_errors": "ignore"}, "encoding_errors"),
        *[(RECEIVER, "socket", {**SERVER, "max_line_bytes": bad}, "max_line_bytes") for bad in (0, 1 << 31)],
        *[(RECEIVER, "raw-socket", {**SERVER, "max_frame_bytes": bad}, "max_frame_bytes") for bad in (0, 1 << 31)],
        *[(RECEIVER, "socket", {**SERVER, "connect_timeout": bad}, "timeout") for bad in (0, -1, math.nan, math.inf)],
        *[(RECEIVER, "socket-stream", {**SERVER, "converter": bad}, "converter") for bad in ("iter", None, 5)],
        *[(RECEIVER, "webhook", {"port": bad}, "port") for bad in (0, 65536, "http")],
        (RECEIVER, "webhook", {"port": 1, "host": "0.0.0.0"}, "anonymous"),
        (RECEIVER, "webhook", {"port": 1, "signature": "github"}, "signature_key"),
        (RECEIVER, "webhook", {"port": 1, "token": "literal"}, "token"),
        *[(RECEIVER, "webhook", {"port": 1, "path": bad}, "path") for bad in ("", "in", "/{a}")],
        *[(RECEIVER, "websocket", {"url": bad}, "url") for bad in ("", "http://h", "ws://u:p@h")],
        *[(RECEIVER, "sse", {"url": bad}, "url") for bad in ("", "ws://h", "http://u:p@h")],
        (RECEIVER, "sse", {"url": "http://h", "idle_timeout": 0}, "idle_timeout"),
        *[(RECEIVER, "redis", {"streams": bad}, "streams") for bad in ("", " , ")],
        *[(RECEIVER, "redis", {"streams": "s", "start": bad}, "start") for bad in ("now", "-1", "1-", "2026-01-01")],
        *[(RECEIVER, "redis", {"streams": "s", "columns": bad}, "columns") for bad in ("", "key", "id,id")],
        *[(RECEIVER, "redis", {"streams": "s", "min_idle": bad}, "min_idle") for bad in (0, math.nan)],
        (RECEIVER, "redis", {"streams": "s", "password": "literal"}, "password"),
        *[(RECEIVER, "synthetic", {"rate": bad}, "rate") for bad in (-1.0, math.nan, math.inf)],
        (RECEIVER, "synthetic", {"shape": "circles"}, "shape"),
        (RECEIVER, "synthetic", {"seed": -1}, "seed"),
        (RECEIVER, "synthetic", {"total": -1}, "total"),
        *[(ESTIMATOR, "model", {"share": bad}, "share") for bad in (0.0, 1.1, math.nan)],
        (ESTIMATOR, "model", {"initial_rate": 0.0}, "initial_rate"),
        *[(ESTIMATOR, "model", {"min_rate": bad}, "min_rate") for bad in (0.0, -1.0)],
        *[(ESTIMATOR, "pid", {name: bad}, name) for name in ("proportional", "minRate") for bad in (-1.0, math.nan)],
        (ESTIMATOR, "fixed", {}, "rate"),
        (ESTIMATOR, "fixed", {"rate": 0.0}, "rate"),
    ],
)
@pytest.mark.parametrize("as_text", [False, True])
def test_invalid_option_is_refused_by_name(
    hook: str, name: str, options: dict[str, Any], option: str, as_text: bool
) -> None:
    given = {key: str(value) for key, value in options.items()} if as_text else options
    with pytest.raises(ConfigurationError, match=rf"'{name}'.*{option}|{option}.*") as caught:
        made(hook, name, given)
    assert "Attribute(" not in str(caught.value)


@pytest.mark.parametrize(("plugin", "hook", "spec"), SPECS, ids=[f"{hook}-{spec.name}" for _, hook, spec in SPECS])
def test_readme_lists_every_option_with_its_default_and_help(plugin: str, hook: str, spec: Spec) -> None:
    text = (FOLDER / plugin / "README.md").read_text(encoding="utf-8")
    if plugin == "file":
        streams, receiver = text.split("\n## Receiver `file`")
        text = receiver if hook == RECEIVER else streams
    elif plugin in {"http", "socket"}:
        text = text.split(f"## `{spec.name}`")[1].split("\n## ")[0]
    for option in Option.of(spec.options):
        assert option.help
        default = "(required)" if option.default is None else f"`{option.default}`"
        estimator = f"`{spec.name}` | " if hook == ESTIMATOR else ""
        assert f"| {estimator}`{option.name}` | {default} | {option.help} |" in text


def test_import_starts_no_thread_and_imports_no_spark() -> None:
    code = f"""
import importlib, sys, threading
for plugin in {[*OFFERS, "ui"]}:
    importlib.import_module(f"penstock_{{plugin}}")
    assert threading.active_count() == 1, (plugin, threading.enumerate())
    assert not {{"pyspark", "pandas"}} & sys.modules.keys(), plugin
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(
    ("hook", "name", "advice"),
    [
        (ESTIMATOR, "pid", ", or penstock-pid"),
        (RECEIVER, "socket", ", or penstock-socket"),
        (RECEIVER, "file", ", or penstock-file"),
        (RECEIVER, "mqtt", ", or penstock-mqtt"),
        # No name of a distribution, or usually another.
        (RECEIVER, "socket-stream", ""),
        (RECEIVER, "My Receiver", ""),
    ],
)
def test_name_of_a_plugin_that_is_not_installed_is_an_error_that_says_how_to_install_it(
    hook: str, name: str, advice: str
) -> None:
    key = "spark.streaming.backpressure.rateEstimator"
    unknown = f"unknown {Plugins.KINDS[hook].kind} '{name}'. Known: none."
    for given, said in ((key, f" It is set by {key}."), ("", "")):
        with pytest.raises(UnknownNameError) as raised:
            Plugins(entry_points=[]).spec(hook, name, given)
        whole = "pip install penstock-spark, which has the common plugins"
        assert str(raised.value) == f"{unknown}{said} No plugin offers it: {whole}{advice}"


def test_misspelt_name_is_no_reason_to_install_anything() -> None:
    with pytest.raises(UnknownNameError, match=r"^unknown receiver 'sokcet'\. Did you mean 'socket'\? Known: [^.]*\.$"):
        load("socket").spec(RECEIVER, "sokcet")


def test_keys_of_the_monitoring_plugin_are_known() -> None:
    known = load("ui").known_options()
    assert known["spark.penstock.ui."] == ["enabled", "host", "port", "otel", "traceLinks", "token"]
    assert known["spark.streaming.ui."] == ["retainedBatches"]
    assert known["spark.penstock.eventLog."] == ["dir", "maxFileSize", "maxFiles", "maxApplications", "maxAge"]


def test_readme_of_the_monitoring_plugin_lists_every_key_with_its_default_and_help() -> None:
    text = (FOLDER / "ui" / "README.md").read_text(encoding="utf-8")
    (plugin,) = [each for each in load("ui").loaded if each.is_working]
    for prefix, kind in plugin.options.items():
        for option in Option.of(kind):
            assert f"| `{prefix}{option.name}` | `{option.default}` | {option.help} |" in text
