"""What the plugin offers, and how options are read, refused and described."""

from __future__ import annotations

import importlib.metadata
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import penstock_socket
from penstock import ReceiverSpec
from penstock.errors import ConfigurationError, UnknownNameError
from penstock.plugins.discovery import Plugins
from penstock.plugins.specs import options_of, read_options

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
SPECS = {spec.name: spec for spec in penstock_socket.receivers()}


@pytest.mark.parametrize("name", ["socket", "raw-socket", "socket-stream"])
def test_the_entry_point_leads_to_it(name: str) -> None:
    own = [each for each in importlib.metadata.entry_points(group="penstock") if each.name == "socket"]
    assert Plugins(strict=True, entry_points=own).spec("receivers", name) == SPECS[name]


def make(name: str, **options: Any) -> Any:
    return SPECS[name].factory(read_options("receiver", SPECS[name], options))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("socket", {"host": "h", "port": 1}),
        ("socket", {"host": "h", "port": "65535", "encoding_errors": "refuse", "max_line_bytes": "1000"}),
        ("socket", {"host": "::1", "port": 9999, "connect_timeout": "0.5"}),
        ("raw-socket", {"host": "h", "port": "1"}),
        ("raw-socket", {"host": "h", "port": 1, "max_frame_bytes": "1073741824", "connect_timeout": 3600}),
        ("socket-stream", {"host": "h", "port": "1", "converter": iter}),
        ("socket-stream", {"host": "h", "port": 1, "converter": lambda file: file, "connect_timeout": "1"}),
    ],
)
def test_options_that_are_taken(name: str, options: dict[str, Any]) -> None:
    assert isinstance(make(name, **options), SPECS[name].factory)  # type: ignore[arg-type]  # both are classes


@pytest.mark.parametrize(
    ("name", "options", "option"),
    [
        ("socket", {"host": "", "port": 1}, "host"),
        ("socket", {"host": "h", "port": 0}, "port"),
        ("socket", {"host": "h", "port": 65536}, "port"),
        ("socket", {"host": "h", "port": 1, "encoding_errors": "ignore"}, "encoding_errors"),
        ("socket", {"host": "h", "port": 1, "max_line_bytes": 0}, "max_line_bytes"),
        ("socket", {"host": "h", "port": 1, "max_line_bytes": 1 << 31}, "max_line_bytes"),
        ("socket", {"host": "h", "port": 1, "connect_timeout": 0}, "connect_timeout"),
        ("socket", {"host": "h", "port": 1, "connect_timeout": math.nan}, "connect_timeout"),
        ("socket", {"host": "h", "port": 1, "connect_timeout": math.inf}, "connect_timeout"),
        ("raw-socket", {"host": "h", "port": -1}, "port"),
        ("raw-socket", {"host": "h", "port": 1, "max_frame_bytes": 0}, "max_frame_bytes"),
        ("raw-socket", {"host": "h", "port": 1, "max_frame_bytes": 1 << 31}, "max_frame_bytes"),
        ("raw-socket", {"host": "h", "port": 1, "connect_timeout": -1}, "connect_timeout"),
    ],
)
def test_values_that_are_refused(name: str, options: dict[str, Any], option: str) -> None:
    with pytest.raises(ValueError, match=option):
        SPECS[name].options(**options)  # type: ignore[misc]  # a class, not None
    with pytest.raises(ConfigurationError, match=name):
        make(name, **{each: str(value) for each, value in options.items()})


@pytest.mark.parametrize("value", ["os:listdir", "iter", None, 5])
def test_a_converter_that_cannot_be_called_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"socket-stream.* is not callable.*converter"):
        make("socket-stream", host="h", port=1, converter=value)


@pytest.mark.parametrize("options", [{}, {"port": 1}, {"host": "h"}, {"host": "h", "port": "http"}])
@pytest.mark.parametrize("name", SPECS)
def test_what_is_missing_or_no_number_is_refused(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=name):
        make(name, **options)


@pytest.mark.parametrize(
    ("name", "unknown", "nearest"),
    [
        ("socket", "hostname", "host"),
        ("socket", "encoding_error", "encoding_errors"),
        ("raw-socket", "max_frame_byte", "max_frame_bytes"),
        ("socket-stream", "convert", "converter"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_name(name: str, unknown: str, nearest: str) -> None:
    with pytest.raises(UnknownNameError, match=rf"Did you mean '{nearest}'\?"):
        make(name, **{"host": "h", "port": 1, unknown: "x"})


@pytest.mark.parametrize("spec", SPECS.values(), ids=list(SPECS))
def test_every_option_is_described_here_and_in_the_readme(spec: ReceiverSpec) -> None:
    section = README.split(f"## `{spec.name}`")[1].split("\n## ")[0]
    for option in options_of(spec):
        assert option.help
        default = "(required)" if option.default is None else f"`{option.default}`"
        assert f"| `{option.name}` | {default} | {option.help} |" in section


def test_importing_it_starts_nothing() -> None:
    code = """
import sys, threading
import penstock_socket
assert threading.active_count() == 1, threading.enumerate()
assert "pyspark" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_making_a_receiver_opens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.socket", None)
    for name in SPECS:
        converter = {"converter": iter} if name == "socket-stream" else {}
        make(name, host="no.such.host.example", port=1, **converter)


def test_the_way_of_a_line_does_not_import_pandas() -> None:
    code = """
import sys
from penstock_socket.line_splitter import LineSplitter
from penstock_socket.tally import Tally
splitter = LineSplitter(100, False, Tally())
splitter.space(4)[:] = b"a\\r\\nb"
splitter.advance(4)
assert splitter.take().to_pylist() == ["a"]
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
