"""docs/troubleshooting.md has the whole text of each refusal: these tests cause them all."""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from plugins.ui.tests.conftest import FixedSource
from plugins.ui.tests.web_client import request
from tests.badplugins.zoo import Zoo
from tests.checkpoint.recoveries import left, recovery_of
from tests.helpers.memory_directory import MemoryDirectory

from penstock.checkpoint.checkpoint_store import CheckpointStore
from penstock.conf import Settings
from penstock.errors import PenstockError
from penstock.journal.write_ahead_log import WriteAheadLog
from penstock.runtime.batch_clock import log_step
from penstock.runtime.clock import SystemClock
from penstock.storage.claim import Claim, Owner
from penstock.storage.directory import LocalDirectory
from penstock_ui.access import Token
from penstock_ui.server import UIServer
from penstock_ui.snapshot import Snapshot

PAGE = (Path(__file__).parents[2] / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("\n## Refusals\n")[2].partition("\n## ")[0]
MESSAGES = re.findall(r"^\| `([^`]+)` \| [^|]+ \|$", SECTION, re.MULTILINE)
OWNER = Owner("host", 2, "counts", "app-2", 1_000)


class Numbers:
    """The state of a log: nothing."""

    def apply(self, event: object) -> None:
        pass

    def events(self) -> list[dict[str, int]]:
        return []


def raised(refused: Callable[[], object]) -> list[str]:
    with pytest.raises(PenstockError) as error:
        refused()
    return [str(error.value)]


def claim_lost(path: Path) -> list[str]:
    first = Claim.take(LocalDirectory(path), OWNER)
    Claim.take(LocalDirectory(path), OWNER)
    return raised(first.check)


def directory_being_changed(path: Path) -> list[str]:
    with Claim.take(LocalDirectory(path), OWNER).held():
        return raised(lambda: Claim.take(LocalDirectory(path), OWNER, timeout_s=0.01))


def drivers_started_at_once(path: Path) -> list[str]:
    class Crowded(LocalDirectory):
        """A directory in which another driver always starts at the same moment."""

        def child(self, name: str) -> LocalDirectory:
            return Crowded(path / name)

        def names(self) -> list[str]:
            return [*super().names(), f"claim-{len(super().names()):010d}-{0:016x}"]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", lambda _seconds: None)
        return raised(lambda: Claim.take(Crowded(path), OWNER))


def directory_of_another_application(path: Path) -> list[str]:
    left(path)
    return raised(recovery_of(path, application="another").prepare)


def checkpoints_of_spark(path: Path) -> list[str]:
    path.mkdir()
    (path / "checkpoint-1000").touch()
    return raised(CheckpointStore(LocalDirectory(path)).refuse_checkpoints_of_spark)


def ambiguous_name(path: Path) -> list[str]:
    path.mkdir()
    zoo = Zoo(path)
    for name in ("one", "two"):
        zoo.add(
            name,
            "@hookimpl\ndef receivers():\n    return [penstock.ReceiverSpec('same', dict)]\n"
            "@hookimpl\ndef state(stream, operator, options):\n    return 1\n",
        )
    plugins = zoo.load()
    # Other tests install modules of the same names.
    for module in zoo.modules:
        del sys.modules[module]
    of_hook = raised(lambda: plugins.first_answer("state", stream=None, operator="", options=None))
    return [*raised(lambda: plugins.spec("receivers", "same")), *of_hook]


def token_missing(_path: Path) -> list[str]:
    server = UIServer(FixedSource(Snapshot()), port=0, token=Token("secret"))
    server.start()
    try:
        response, body = request(server, "/api/v1/applications")
        assert response.status == 401
        return [str(json.loads(body)["error"])]
    finally:
        server.stop()


def storage_hung(_path: Path) -> list[str]:
    directory, writing, answers = MemoryDirectory(), threading.Event(), threading.Event()

    def hook(operation: str, _name: str) -> None:
        if operation == "commit":
            writing.set()
            assert answers.wait(30)

    log = WriteAheadLog(directory, "run", Settings.parse({}), SystemClock())
    log.recover(Numbers())
    log.start()
    directory.hook = hook
    messages: list[str] = []

    def append() -> None:
        messages.extend(raised(lambda: log.append({"n": 1})))

    threads = [threading.Thread(target=append) for _ in range(2)]
    threads[0].start()
    assert writing.wait(30)
    threads[1].start()
    # Holds the race open until the second event waits.
    with log._changed:
        assert log._changed.wait_for(lambda: log._queue, 30)
    log.close(timeout_s=0.01)
    for thread in threads:
        thread.join(30)
    answers.set()
    assert len(messages) == 2
    return messages


CAUSES = (
    claim_lost,
    directory_being_changed,
    drivers_started_at_once,
    directory_of_another_application,
    checkpoints_of_spark,
    ambiguous_name,
    token_missing,
    storage_hung,
)


@pytest.fixture(scope="module")
def caused(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    folder = tmp_path_factory.mktemp("refusals")
    with pytest.MonkeyPatch.context() as patch:
        for cause in CAUSES:
            patch.syspath_prepend(folder / cause.__name__)
        return {cause.__name__: cause(folder / cause.__name__) for cause in CAUSES}


def is_instance(message: str, documented: str) -> bool:
    return re.fullmatch(".+?".join(map(re.escape, documented.split("…"))), message) is not None


@pytest.mark.parametrize("cause", [cause.__name__ for cause in CAUSES])
def test_page_has_the_whole_message(caused: dict[str, list[str]], cause: str) -> None:
    for message in caused[cause]:
        assert [text for text in MESSAGES if is_instance(message, text)], message


def test_every_message_on_the_page_was_caused(caused: dict[str, list[str]]) -> None:
    messages = [message for found in caused.values() for message in found]
    assert [text for text in MESSAGES if not any(is_instance(message, text) for message in messages)] == []
    assert len(MESSAGES) == len(messages) == 10


def test_step_of_the_clock_is_the_event_on_the_page(caplog: pytest.LogCaptureFixture) -> None:
    log_step(-3_600_000, 3_600_000)
    assert "`wall clock stepped`" in SECTION
    assert "wall clock stepped" in caplog.text
    assert "batch times continue in sequence, ahead of the wall clock" in caplog.text
