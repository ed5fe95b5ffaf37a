"""What the plugin offers, and how options are read, refused and described."""

from __future__ import annotations

import importlib.metadata
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import penstock_file
from penstock import InputStreamSpec, ReceiverSpec
from penstock.errors import ConfigurationError, UnknownNameError
from penstock.plugins.discovery import Plugins
from penstock.plugins.specs import InputSource, options_of, read_options
from penstock_file.selection import HALF_WRITTEN

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
STREAMS = {spec.name: spec for spec in penstock_file.input_streams()}
(RECEIVER,) = penstock_file.receivers()


def test_the_entry_point_leads_to_it() -> None:
    own = [each for each in importlib.metadata.entry_points(group="penstock") if each.name == "file"]
    plugins = Plugins(strict=True, entry_points=own)
    assert plugins.spec("receivers", "file") == RECEIVER
    assert {name: plugins.spec("input_streams", name) for name in STREAMS} == STREAMS


def make(spec: InputStreamSpec | ReceiverSpec, **options: Any) -> Any:
    kind = "receiver" if isinstance(spec, ReceiverSpec) else "input stream"
    return spec.factory(read_options(kind, spec, options))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("text-file", {"directory": "/d"}),
        ("text-file", {"directory": "d/*", "new_files_only": "false", "max_files_per_batch": "7"}),
        ("binary-records", {"directory": "file:///d", "record_length": "100", "max_bytes_per_batch": "1000000"}),
        ("file", {"directory": "/d"}),
        ("file", {"directory": "/d", "filter": None, "read": None, "new_files_only": True}),
        ("file", {"directory": "/d", "filter": str.isalpha, "read": list, "new_files_only": False}),
    ],
)
def test_options_of_streams_that_are_taken(name: str, options: dict[str, Any]) -> None:
    assert isinstance(make(STREAMS[name], **options), InputSource)


@pytest.mark.parametrize(
    ("name", "options", "named"),
    [
        ("text-file", {}, "directory"),
        ("text-file", {"directory": ""}, "directory"),
        ("text-file", {"directory": "/d", "max_files_per_batch": "-1"}, "max_files_per_batch"),
        ("text-file", {"directory": "/d", "max_bytes_per_batch": "1.5"}, "max_bytes_per_batch"),
        ("text-file", {"directory": "/d", "new_files_only": "maybe"}, "new_files_only"),
        ("text-file", {"directory": "nosuch://d"}, "nosuch://d"),
        ("binary-records", {"directory": "/d"}, "record_length"),
        ("binary-records", {"directory": "/d", "record_length": 0}, "record_length"),
        ("file", {"directory": "/d", "filter": "*.txt"}, "filter"),
        ("file", {"directory": "/d", "read": 7}, "read"),
    ],
)
def test_options_of_streams_that_are_refused(name: str, options: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        make(STREAMS[name], **options)


@pytest.mark.parametrize(
    "options",
    [
        {"path": "/a"},
        {"path": "/a/*.log", "start": "end", "poll_interval": "0.5", "max_line_bytes": "100"},
        {"path": "a", "offset_file": "b", "encoding_errors": "refuse"},
    ],
)
def test_options_of_the_receiver_that_are_taken(options: dict[str, Any]) -> None:
    assert isinstance(make(RECEIVER, **options), penstock_file.FileReceiver)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "path"),
        ({"path": ""}, "path"),
        ({"path": "/a", "start": "middle"}, "start"),
        ({"path": "/a", "poll_interval": 0}, "poll_interval"),
        ({"path": "/a", "poll_interval": math.nan}, "poll_interval"),
        ({"path": "/a", "poll_interval": math.inf}, "poll_interval"),
        ({"path": "/a", "max_line_bytes": 0}, "max_line_bytes"),
        ({"path": "/a", "max_line_bytes": 1 << 31}, "max_line_bytes"),
        ({"path": "/a", "encoding_errors": "ignore"}, "encoding_errors"),
    ],
)
def test_options_of_the_receiver_that_are_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        make(RECEIVER, **options)


def test_an_unknown_option_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownNameError, match=r"Did you mean 'max_files_per_batch'\?"):
        make(STREAMS["text-file"], directory="/d", max_files=1)
    with pytest.raises(UnknownNameError, match=r"Did you mean 'offset_file'\?"):
        make(RECEIVER, path="/a", offset="x")


@pytest.mark.parametrize("spec", [*STREAMS.values(), RECEIVER], ids=[*STREAMS, "receiver"])
def test_every_option_is_described_here_and_in_the_readme(spec: InputStreamSpec | ReceiverSpec) -> None:
    streams, receiver = README.split("\n## Receiver `file`")
    for option in options_of(spec):
        assert option.help
        default = "(required)" if option.default is None else f"`{option.default}`"
        section = receiver if spec is RECEIVER else streams
        assert f"| `{option.name}` | {default} | {option.help} |" in section


def test_the_names_that_are_left_out_are_in_the_readme() -> None:
    assert f"`{' '.join(HALF_WRITTEN)}`" in README


def test_importing_it_starts_nothing() -> None:
    code = """
import sys, threading
import penstock_file
assert threading.active_count() == 1, threading.enumerate()
assert "pyspark" not in sys.modules and "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_making_a_receiver_opens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.open", None)
    make(RECEIVER, path="/a", offset_file="/b")
