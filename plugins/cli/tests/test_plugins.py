"""`penstock plugins`: working, broken and disabled plugins."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Cli = Callable[..., Result]
Install = Callable[[str, str], None]

WELL = """
from attrs import define, field
from penstock import RateEstimatorSpec, ReceiverSpec, hookimpl

print("noise of a plugin")

@define
class Options:
    depth: int = field(metadata={"help": "how deep, in [m]"})
    lid: bool = field(default=True, metadata={"help": "whether it is closed"})
    key: str = field(default="open sesame", repr=False)

@hookimpl
def receivers():
    return [ReceiverSpec("well", lambda options: None, Options, "water"), ReceiverSpec("spring", lambda: None)]

@hookimpl
def rate_estimators():
    return [RateEstimatorSpec("bucket", lambda options, interval: None, None, "one at a time")]

@hookimpl
def onBatchCompleted(batchCompleted):
    pass
"""
BROKEN = "import no_such_module"


def test_list_shows_what_plugins_offer_and_why_one_was_left_out(cli: Cli, install: Install) -> None:
    install("well", WELL)
    install("broken", BROKEN)
    result = cli("plugins", "list")
    broken, well = (line for line in result.stdout.splitlines() if "acme" in line)
    assert "well  " in well
    assert "acme-well" in well
    assert "1.2" in well
    assert "receiver well, spring; rate estimator bucket; listener well" in well
    assert "onBatchCompleted, rate_estimators, receivers" in well
    assert "left out: ModuleNotFoundError: No module named 'no_such_module'" in broken


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_list_exits_with_1_only_if_a_plugin_was_left_out(cli: Cli, install: Install, flags: tuple[str, ...]) -> None:
    install("well", WELL)
    assert cli("plugins", "list", *flags).exit_code == 0
    install("broken", BROKEN)
    result = cli("plugins", "list", *flags)
    assert result.exit_code == 1
    assert "penstock: left out: broken; to find out why: penstock plugins check NAME\n" in result.stderr


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_list_shows_names_that_two_plugins_offer(
    cli: Cli, install: Install, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    install("well", WELL)
    install("other", WELL)
    result = cli("plugins", "list", *flags)
    assert result.exit_code == 1
    for name in ("receiver 'well'", "receiver 'spring'", "rate estimator 'bucket'"):
        assert (
            f"penstock: the {name} is offered by other (acme-other 1.2) and well (acme-well 1.2): "
            "set spark.penstock.plugins.prefer to acme-other or acme-well\n" in result.stderr
        )
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.penstock.plugins.prefer=acme-well pyspark-shell")
    assert cli("plugins", "list", *flags).exit_code == 0


def test_fault_is_shown_but_not_logged(cli: Cli, install: Install, caplog: pytest.LogCaptureFixture) -> None:
    install("broken", BROKEN)
    for command in (["plugins", "list"], ["plugins", "show", "broken"], ["doctor"]):
        assert cli(*command).stdout.count("no_such_module") == 1
    assert not caplog.records


def test_json_list_is_pure_json(cli: Cli, install: Install) -> None:
    install("well", WELL)
    install("broken", BROKEN)
    broken, well = json.loads(cli("plugins", "list", "--json").stdout)
    assert well == {
        "name": "well",
        "distribution": "acme-well",
        "version": "1.2",
        "value": well["value"],
        "offers": [
            {"kind": "receiver", "name": "well", "summary": "water"},
            {"kind": "receiver", "name": "spring", "summary": ""},
            {"kind": "rate estimator", "name": "bucket", "summary": "one at a time"},
            {"kind": "listener", "name": "well", "summary": ""},
        ],
        "hooks": ["onBatchCompleted", "rate_estimators", "receivers"],
        "in_production": {},
        "answers": [],
        "fault": "",
        "disabled": False,
    }
    assert broken["fault"] == "ModuleNotFoundError: No module named 'no_such_module'"


def test_empty_list_names_what_to_install(cli: Cli, install: Install) -> None:
    assert "pip install penstock-spark" in cli("plugins", "list").stdout
    assert json.loads(cli("plugins", "list", "--json").stdout) == []


def test_disabled_plugins_are_listed_as_such(
    cli: Cli, install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("well", WELL)
    install("broken", BROKEN)
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.penstock.plugins.disable=broken pyspark-shell")
    broken, well = json.loads(cli("plugins", "list", "--json").stdout)
    assert (broken["disabled"], broken["fault"], well["disabled"]) == (True, "", False)
    (tmp_path / "spark-defaults.conf").write_text("spark.penstock.plugins.disable   well,broken\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS")
    assert cli("plugins", "list").stdout.count("disabled by spark.penstock.plugins.disable") == 2


def test_invalid_value_of_another_key_does_not_hide_the_plugins(
    cli: Cli, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("well", WELL)
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.streaming.blockInterval=soon pyspark-shell")
    for command in (["plugins", "list"], ["doctor"]):
        assert "well" in cli(*command).stdout


def test_show_prints_offers_and_options(cli: Cli, install: Install) -> None:
    install("well", WELL)
    result = cli("plugins", "show", "well")
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "receiver well: water" in lines
    assert "depth integer required how deep, in [m]" in lines
    assert "lid boolean True whether it is closed" in lines
    assert "key text (hidden)" in lines
    assert "open sesame" not in result.stdout
    assert "receiver spring" in lines
    assert "rate estimator bucket: one at a time" in lines


@pytest.mark.parametrize("name", ["spring", "bucket"])
def test_show_finds_what_a_plugin_offers(cli: Cli, install: Install, name: str) -> None:
    install("well", WELL)
    (plugin,) = json.loads(cli("plugins", "show", name, "--json").stdout)
    assert plugin["name"] == "well"
    assert [offer["name"] for offer in plugin["offers"]] == [name]


def test_json_of_show_has_the_options(cli: Cli, install: Install) -> None:
    install("well", WELL)
    (plugin,) = json.loads(cli("plugins", "show", "well", "--json").stdout)
    assert plugin["offers"][0]["options"][0] == {
        "name": "depth",
        "type": "integer",
        "default": None,
        "help": "how deep, in [m]",
    }


def test_show_finds_a_plugin_and_another_plugins_receiver_of_the_same_name(cli: Cli, install: Install) -> None:
    install("well", WELL)
    install("spring", "from penstock import hookimpl\n@hookimpl\ndef listeners(context): return []")
    spring, well = json.loads(cli("plugins", "show", "spring", "--json").stdout)
    assert (spring["name"], [offer["kind"] for offer in spring["offers"]]) == ("spring", ["listener"])
    assert (well["name"], well["offers"][0]["name"]) == ("well", "spring")


LISTENING = """
from __future__ import annotations
from collections.abc import Iterable
from typing import Any
from penstock import hookimpl

class Bell: ...
class Horn: ...

@hookimpl
def listeners(context) -> {annotation}:
    raise AssertionError("a list of plugins has no context")
"""


@pytest.mark.parametrize("is_text", [True, False])
@pytest.mark.parametrize(
    ("annotation", "names"),
    [
        ("Iterable[Bell]", "Bell"),
        ("list[Bell | Horn]", "Bell, Horn"),
        ("list[Any]", "noise"),
        ("Iterable", "noise"),
        ("None", "noise"),
    ],
)
def test_list_names_the_listeners_by_the_annotation_of_their_hook(
    cli: Cli, install: Install, annotation: str, names: str, is_text: bool
) -> None:
    source = LISTENING.format(annotation=annotation)
    install("noise", source if is_text else source.replace("from __future__ import annotations\n", ""))
    assert f" listener {names} " in cli("plugins", "list").stdout


def test_show_finds_a_listener(cli: Cli, install: Install) -> None:
    install("noise", LISTENING.format(annotation="Iterable[Bell]"))
    (plugin,) = json.loads(cli("plugins", "show", "Bell", "--json").stdout)
    assert (plugin["name"], [offer["name"] for offer in plugin["offers"]]) == ("noise", ["Bell"])


def test_show_refuses_an_unknown_name_with_the_nearest(cli: Cli, install: Install) -> None:
    install("well", WELL)  # the plugin prints the first line
    result = cli("plugins", "show", "wel")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.splitlines()[1:] == [
        "penstock: unknown plugin, receiver, rate estimator, input stream or listener 'wel'. Did you mean 'well'? "
        "Known: bucket, spring, well."
    ]


def test_commands_import_no_spark() -> None:
    commands = [
        ["--help"],
        ["demo", "--help"],
        ["plugins", "list"],
        ["doctor"],
        ["rate", "simulate", "--workload", "bursty"],
    ]
    code = f"""
import sys
from penstock_cli.command import penstock

for command in {commands}:
    penstock(command, standalone_mode=False)
    assert not {{"pyspark", "py4j"}} & sys.modules.keys(), command
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "its process was killed by SIGSEGV"),
        ("import os\nos._exit(3)", "it ended the process with exit status 3"),
        ("import threading\nthreading.Event().wait()", "it did not load within 1 s"),
        (
            "import threading\nfrom penstock import hookimpl\n@hookimpl\ndef receivers(): threading.Event().wait()",
            "it did not load within 1 s",
        ),
    ],
    ids=["crashes", "exits", "hangs", "hangs in a hook"],
)
def test_plugin_that_does_not_survive_loading_is_shown_beside_the_others(
    cli: Cli, install: Install, monkeypatch: pytest.MonkeyPatch, source: str, fault: str
) -> None:
    monkeypatch.setattr("penstock_cli.installed._LOAD_LIMIT_S", 1.0)
    install("well", "from penstock import hookimpl\n@hookimpl\ndef listeners(context): return []")
    install("bad", source)
    result = cli("plugins", "list")
    assert result.exit_code == 1
    bad, well = (line for line in result.stdout.splitlines() if "acme" in line)
    assert f"left out: {fault}" in bad
    assert "listeners" in well
    assert fault in cli("plugins", "show", "bad").stdout
    report = cli("doctor").stdout
    assert f"plugin bad (acme-bad 1.2) was left out: {fault}" in report
    assert "plugins: well" in report
