"""Files that grow, rotate and are rewritten while receivers are relaunched: each line once, in order."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from tests.helpers.examples import examples

from penstock_file import FileReceiver, FileReceiverOptions, positions
from penstock_file.file_watcher import FileWatcher


class Recording(FileReceiver):
    """Stores into a list."""

    rate_limit = None
    block_interval_ms = 200

    def __init__(self, options: FileReceiverOptions, stored: list[str]) -> None:
        super().__init__(options)
        self.stored = stored
        self.reported = list[str]()

    def store_arrow(self, batch: Any, metadata: object = None) -> None:
        assert isinstance(batch, pa.Table)
        self.stored += batch["value"].to_pylist()

    def reportError(self, message: str, error: BaseException | None = None) -> None:
        self.reported.append(message)


class Rotating(RuleBasedStateMachine):
    """One path, many files."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.log = self.folder / "app.log"
        self.offsets = str(self.folder / "offsets")
        self.now_s = 0.0
        self.number = 0
        self.rotations = 0
        self.stored: list[str] = []
        self.expected: list[str] = []
        self.partial = ""
        self.launch()

    def launch(self) -> None:
        self.receiver = Recording(FileReceiverOptions(path=str(self.log), offset_file=self.offsets), self.stored)
        self.watch = FileWatcher(
            str(self.log),
            positions.load(self.offsets),
            at_end=False,
            max_line_bytes=1000,
            report=self.receiver.reportError,
            monotonic_s=lambda: self.now_s,
        )
        self.look()

    def text(self) -> str:
        self.number += 1
        return f"line {self.number}"

    def write(self, text: str) -> None:
        with self.log.open("a") as file:
            file.write(text)

    @rule(count=st.integers(1, 3))
    def append(self, count: int) -> None:
        for _ in range(count):
            line = self.text()
            self.write(f"{line}\n")
            self.expected.append(self.partial + line)
            self.partial = ""

    @rule()
    def append_a_part(self) -> None:
        part = self.text() + " "
        self.write(part)
        self.partial += part

    @rule()
    def look(self) -> None:
        self.watch.scan()
        # Calls the steps of the receiver's thread in turn, on the thread of the test.
        self.receiver._save_offsets(self.watch)
        self.receiver._read_all(self.watch)

    @rule()
    def look_until_all_is_read(self) -> None:
        for _ in range(4):
            self.look()
        assert self.stored == self.expected

    @rule()
    def rotate(self) -> None:
        if not self.log.exists():
            return
        self.look_until_all_is_read()
        # What follows is read after the rotation.
        self.append(1)
        self.rotations += 1
        self.log.rename(self.folder / f"app.log.{self.rotations}")
        if self.partial:
            self.expected.append(self.partial)
            self.partial = ""
        # The last line has no end: it is one when the file has been quiet for long enough.
        for _ in range(4):
            self.look()
            self.now_s += 10
        self.look_until_all_is_read()

    @rule()
    def truncate(self) -> None:
        if self.log.exists():
            self.look_until_all_is_read()
            self.partial = ""
            self.log.write_text("")
            self.look()

    @rule()
    def relaunch(self) -> None:
        self.watch.close()
        self.launch()

    @rule()
    def rotate_while_nobody_looks(self) -> None:
        if not self.log.exists():
            return
        self.look_until_all_is_read()
        self.watch.close()
        self.append(2)
        self.rotations += 1
        self.log.rename(self.folder / f"app.log.{self.rotations}")
        self.append(1)
        self.launch()
        self.look_until_all_is_read()

    def teardown(self) -> None:
        self.look_until_all_is_read()
        self.watch.close()
        shutil.rmtree(self.folder)


Rotating.TestCase.settings = settings(deadline=None, max_examples=examples(20), stateful_step_count=25)
TestRotating = Rotating.TestCase


def test_emptied_file_that_is_written_to_and_renamed_after_a_relaunch() -> None:
    state = Rotating()
    state.append_a_part()
    state.rotate_while_nobody_looks()
    state.truncate()
    state.relaunch()
    state.rotate()
    state.teardown()


def test_empty_file_that_is_written_to_and_renamed_between_two_looks() -> None:
    state = Rotating()
    state.write("")
    state.look()
    state.append(1)
    state.log.rename(state.folder / "app.log.1")
    state.teardown()


def test_rest_comes_first_though_a_look_falls_between_the_renaming_and_the_new_file() -> None:
    state = Rotating()
    state.append(1)
    state.look()
    state.append(1)
    state.log.rename(state.folder / "app.log.1")
    state.watch.scan()
    state.append(1)
    state.watch.scan()
    assert [file.path for file in state.watch.readable()] == [str(state.log)]  # the old one's, though renamed
    (old,) = state.watch.readable()
    assert old.left_s is not None
    state.look_until_all_is_read()
    state.teardown()
