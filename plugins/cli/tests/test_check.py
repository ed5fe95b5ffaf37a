"""`penstock plugins check`: what it tests, what it prints, how it exits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from click.testing import Result
from tests.mutants.mutant import installed_files
from tests.mutants.packaging import REFERENCE, distribution, reference

Cli = Callable[..., Result]

SUITE = """
from penstock_testing import MemoryFeeder, ReceiverSuite


class ServerFeeder(MemoryFeeder):
    def options(self):
        return {{"server": super().options()["address"]}}


class Suite(ReceiverSuite):
    name = "{name}"
    feeder = ServerFeeder
"""


@contextmanager
def _suited(name: str, source: str = REFERENCE, suite: str = SUITE) -> Iterator[None]:
    """An installed plugin that ships its suite."""
    groups = "[penstock]\n{name} = {name}\n[penstock.suites]\n{name} = {name}_suite:Suite"
    files = distribution(name, source, entry_points=groups)
    with installed_files(files | {f"{name}_suite.py": suite.format(name=name)}):
        yield


def test_first_party_receiver_passes_its_packaging_checks(cli: Cli) -> None:
    result = cli("plugins", "check", "synthetic", "--only", "PK-01", "--only", "PK-08")
    assert result.exit_code == 0, result.output
    assert "PK-01 entry_point_resolves (must): passed" in result.stdout
    assert "synthetic (receiver): 2 run, 0 not applicable" in result.stdout


def test_shipped_suite_feeds_the_receiver(cli: Cli) -> None:
    with _suited("cli_suited"):
        result = cli("plugins", "check", "cli_suited", "--only", "PK-13", "--seed", "7")
    assert result.exit_code == 0, result.output
    assert "1 run, 0 not applicable, 0 excused, 0 failed; 1 selected; seed 7." in result.stdout


def test_suite_of_the_command_line_feeds_the_receiver(cli: Cli) -> None:
    with installed_files(distribution("cli_named") | {"cli_named_suite.py": SUITE.format(name="cli_named")}):
        result = cli("plugins", "check", "cli_named", "--suite", "cli_named_suite:Suite", "--only", "PK-13")
    assert result.exit_code == 0, result.output
    assert "1 run" in result.stdout


def test_suite_of_another_kind_is_refused(cli: Cli) -> None:
    with installed_files(distribution("cli_kind") | {"cli_kind_suite.py": SUITE.format(name="cli_kind")}):
        result = cli("plugins", "check", "cli_kind", "--suite", "cli_kind_suite:Suite", "--kind", "listener")
    assert result.exit_code == 1
    assert "--kind listener: the suite cli_kind_suite:Suite is of kind receiver" in result.stderr


def test_json_goes_to_standard_output_and_progress_to_standard_error(cli: Cli) -> None:
    result = cli("plugins", "check", "pid", "--only", "PK-01", "--json")
    (report,) = json.loads(result.stdout)
    assert (report["kind"], report["subject"], report["ok"]) == ("rate-estimator", "pid", True)
    assert "PK-01 entry_point_resolves (must): passed" in result.stderr


@pytest.mark.parametrize(
    ("change", "check", "code"),
    [
        (("", ""), "PK-01", 0),
        (('metadata={"help": "of the source"}', ""), "PK-08", 4),
        (
            (
                "import attrs\n",
                "import attrs\nimport time\nend = time.process_time() + 0.6\nwhile time.process_time() < end: pass\n",
            ),
            "PK-07",
            3,
        ),
    ],
    ids=["passes", "must", "should"],
)
def test_exit_code_is_that_of_the_worst_failure(cli: Cli, change: tuple[str, str], check: str, code: int) -> None:
    source = reference(change) if code else REFERENCE
    with installed_files(distribution("cli_exit", source)):
        result = cli("plugins", "check", "cli_exit", "--only", "PK-01", "--only", check)
    assert result.exit_code == code, result.output


@pytest.mark.parametrize(
    ("body", "seen", "only"),
    [
        ("import no_such_library", "No module named 'no_such_library'", ["--only", "PK-01"]),
        ("import os; os._exit(5)", "ended the process with exit status 5", ["--only", "PK-01"]),
        ("import os; os.kill(os.getpid(), 9)", "its process was killed by SIGKILL", []),
        ("raise SystemExit('bye')", "SystemExit: bye", ["--only", "PK-01"]),
    ],
)
def test_plugin_that_does_not_load_is_reported_by_its_packaging_checks(
    cli: Cli, body: str, seen: str, only: list[str]
) -> None:
    with _suited("cli_broken", body):
        result = cli("plugins", "check", "cli_broken", *only)
    assert result.exit_code == 4, result.output
    assert seen in result.stdout
    assert "cli_broken (plugin): " in result.stdout


def test_plugin_that_hangs_while_it_loads_is_reported(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_TEST_SCALE", "0.1")
    with _suited("cli_hangs", "import threading; threading.Event().wait()"):
        result = cli("plugins", "check", "cli_hangs", "--only", "PK-01", "--only", "PK-15")
    assert result.exit_code == 4, result.output
    assert "it did not load within 1.5 s" in result.stdout
    assert "cli_hangs (plugin): 1 run, 1 not applicable" in result.stdout


def test_check_that_ends_its_process_fails_and_the_next_one_runs(cli: Cli) -> None:
    exits = REFERENCE.replace(
        "        self.options, self.connection",
        "        import os, signal; os.kill(os.getpid(), signal.SIGKILL)\n        self.options, self.connection",
    )
    with _suited("cli_killed", exits):
        result = cli("plugins", "check", "cli_killed", "--only", "PK-12", "--only", "PK-13", "--only", "PK-15")
    assert result.exit_code == 4
    assert result.stdout.count("the process of the check was killed by SIGKILL") == 2
    assert "PK-15 readme_names_options (may): passed" in result.stdout


_STORE = """
from pathlib import Path
from penstock import hookimpl

class Store:
    stored = 0

    @hookimpl(wrapper=True)
    def store(self, block):
        answer = yield
        self.stored += 1
        if self.stored % 5 == 0:
            Path(answer.path).unlink()
        return answer
"""
_LISTENER = """
import threading
from penstock import hookimpl

class Listener:
    def onBatchCompleted(self, batchCompleted):
        {body}

@hookimpl
def listeners(context):
    return [Listener()]
"""
_ON_HOOK = """
from penstock import hookimpl

@hookimpl
def onBatchStarted(batchStarted):
    raise RuntimeError("no")
"""


@pytest.mark.parametrize(
    ("source", "target", "kind", "check", "seen", "grade"),
    [
        (_STORE, ":Store", "block-store", "BS-01", "raised BlockGoneError", "loads"),
        (
            _LISTENER.format(body="raise RuntimeError('no')"),
            "",
            "listener",
            "LI-01",
            "raised RuntimeError: no",
            "fails",
        ),
        (_LISTENER.format(body="threading.Event().wait(10)"), "", "listener", "LI-01", "time limit of 2 s", ""),
        (_ON_HOOK, "", "listener", "LI-01", "cli_bare.onBatchStarted raised RuntimeError: no", "fails"),
    ],
    ids=["store loses blocks", "listener raises", "listener blocks", "hook raises"],
)
def test_what_a_plugin_without_a_suite_offers_is_tested(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, source: str, target: str, kind: str, check: str, seen: str, grade: str
) -> None:
    if not grade:
        monkeypatch.setenv("PENSTOCK_TEST_SCALE", "0.1")
    groups = "[penstock]\n{name} = {name}" + target
    with installed_files(distribution("cli_bare", source, entry_points=groups)):
        checked = cli("plugins", "check", "cli_bare", "--json", *([] if grade else ["--only", check]))
    assert checked.exit_code == 4, checked.output
    (report,) = json.loads(checked.stdout)
    assert (report["kind"], report["ok"]) == (kind, False)
    (of_check,) = [result for result in report["results"] if result["id"] == check]
    assert seen in of_check["seen"]
    if grade:
        assert report["grade"] == grade


def test_whole_plugin_is_tested_and_what_has_no_suite_is_named(cli: Cli) -> None:
    offers_more = REFERENCE.replace(
        "\n@hookimpl\ndef receivers",
        """

@hookimpl(wrapper=True)
def store(block):
    return (yield)


@hookimpl
def dataframes(stream, schema):
    raise OSError("no disk")


@hookimpl
def input_streams():
    return [InputStreamSpec("cli_pulled", list)]


@hookimpl
def receivers""",
    ).replace("import ReceiverSpec", "import InputStreamSpec, ReceiverSpec")
    groups = "[penstock]\n{name} = {name}\n[penstock.commands]\ncli-whole-show = {name}:show"
    with installed_files(distribution("cli_whole", offers_more, entry_points=groups)):
        result = cli("plugins", "check", "cli_whole", "--json")
    assert result.exit_code == 0, result.output
    receiver, store = json.loads(result.stdout)
    assert (receiver["kind"], receiver["grade"]) == ("receiver", "loads")
    live = "6 live checks not run: pass --live, or set live=True"
    assert receiver["untested"] == ["nothing that needs data was tested: give a suite with a feeder", live]
    assert (store["kind"], store["grade"]) == ("block-store", "hardened")
    pulled, hook = "the input stream 'cli_pulled' was not tested", "the hook 'dataframes' was not tested"
    assert store["untested"] == [live, pulled, hook, "the command 'cli-whole-show' was not tested"]


def test_packaging_alone_gives_no_better_grade_than_loads(cli: Cli) -> None:
    with installed_files(distribution("cli_packaged")):
        result = cli("plugins", "check", "cli_packaged", "--kind", "plugin")
    assert "grade: loads (only the packaging was tested)" in result.stdout, result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sockett",), "unknown plugin, receiver or rate estimator 'sockett'. Did you mean 'socket'?"),
        (
            ("pid", "--kind", "receiver"),
            "--kind receiver: 'pid' has no checks of this kind, it is of kind rate-estimator",
        ),
        (("pid", "--only", "RE-99"), "unknown check 'RE-99' of a rate-estimator"),
        (
            ("pid", "--suite", "no_such_module:Suite"),
            "the suite no_such_module:Suite does not load: ModuleNotFoundError",
        ),
        (("pid", "--suite", "json:dumps"), "json:dumps is not a suite: derive a class from"),
        (("synthetic", "--option", "rat=1"), "unknown option 'rat' of receiver 'synthetic'. Did you mean 'rate'?"),
        (("pid", "--option", "minrate=1"), "unknown option 'minrate' of rate estimator 'pid'. Did you mean 'minRate'?"),
    ],
)
def test_mistake_of_the_command_line_is_one_clear_line(cli: Cli, arguments: tuple[str, ...], message: str) -> None:
    result = cli("plugins", "check", *arguments)
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.spark
@pytest.mark.programs
@pytest.mark.usefixtures("pysparks_daemon")
def test_live_checks_run_a_receiver_by_name_and_one_whose_option_is_a_function(cli: Cli) -> None:
    by_name = cli(
        "plugins", "check", "socket", "--suite", "penstock_socket.conformance:SocketSuite", "--live", "--only", "XX-02"
    )
    assert by_name.exit_code == 0, by_name.output
    assert "XX-02 swapped_by_config_alone (must): passed" in by_name.stdout
    pickled = cli("plugins", "check", "socket-stream", "--live", "--only", "XX-01", "--only", "XX-02")
    assert pickled.exit_code == 0, pickled.output
    assert "XX-01 word_count_end_to_end (must): passed" in pickled.stdout
    assert "XX-02 swapped_by_config_alone (must): not applicable, the option converter is a function" in pickled.stdout
