"""``Checkpointer``: what it gathers, and that nothing is deleted which a kept checkpoint leads to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from attrs import evolve
from tests.checkpoint.test_checkpoint_store import FIRST, Disk
from tests.checkpoint.test_reattachment import Program
from tests.helpers.memory_directory import full_disk

from penstock import StreamingContext
from penstock.checkpoint.batch_attempts import Attempts
from penstock.checkpoint.checkpointer import Checkpointer
from penstock.checkpoint.manifest import Checkpoint, SavedInput
from penstock.checkpoint.store import CheckpointStore
from penstock.errors import CheckpointError, WriteAheadLogError
from penstock.graph.input_stream import PulledInputDStream
from penstock.runtime.clock import ManualClock
from penstock.storage.directory import Directory


class Source:
    """Says where it is."""

    def __init__(self) -> None:
        self.answer: Callable[[], Any] = lambda: {"known": ["a file"]}

    def __getattr__(self, name: str) -> Any:
        if name in ("open", "start", "compute", "clean_up", "stop", "go_on_from", "compute_again"):
            return lambda *_args: None
        raise AttributeError(name)

    def position(self) -> Any:
        return self.answer()


class Writing:
    """A checkpointer of a program with one state, on a disk in memory unless another is given."""

    def __init__(
        self, first: Checkpoint, listeners: dict[str, Callable[[], Any]], directory: Directory | None = None
    ) -> None:
        self.disk, self.program = Disk(), Program()
        self._directory = directory or self.disk
        self.program.state("sums")
        self.source = Source()
        PulledInputDStream(cast(StreamingContext, self.program.context), lambda: self.source).setName("files")
        self.deleted: list[str] = []
        self.forgotten: list[set[int]] = []
        self.told: list[int] = []
        self.reasons: list[str] = []
        self.cleanable: list[int] = []
        self.journaled = 0
        self.checkpointer = Checkpointer(
            first,
            self.program.context.graph,
            CheckpointStore(self._directory),
            ManualClock(0),
            rates=lambda: {0: 5.0},
            listeners=listeners,
            attempts=Attempts({2000: 3}),
            keeps_blocks=True,
            journaled=lambda: self.journaled,
            outputs=None,
            delete_file=self.deleted.append,
            delete_folder=self.deleted.append,
            forget_streams=self.forgotten.append,
            max_failures=2,
            on_failures=self._on_failures,
        )
        self._done = threading.Semaphore(0)
        self.checkpointer.on_cleanable = self._on_cleanable
        write = self.checkpointer._writer._write

        def counted(taken: Checkpoint | Exception) -> None:
            write(taken)
            self._done.release()

        self.checkpointer._writer._write = counted  # type: ignore[method-assign]

    def _on_failures(self, count: int, error: BaseException) -> None:
        self.told.append(count)
        self.reasons.append(str(error))

    def _on_cleanable(self, before_ms: int) -> None:
        self.cleanable.append(before_ms)

    def save(self, number: int, pending: tuple[int, ...] = ()) -> None:
        """Save batch ``number``, and return when that is written or was tried."""
        self.checkpointer.save(number * 1000, pending, number * 1000 - 1000)
        assert self._done.acquire(timeout=30)

    @property
    def table(self) -> Any:
        return self.program.tables()["sums"]

    @property
    def position(self) -> Any:
        """Of the source, in the newest."""
        saved = {each.name: each.position for each in self.newest.inputs}["files"]
        return None if saved is None else saved["source"]

    @property
    def newest(self) -> Checkpoint:
        found = CheckpointStore(self._directory).newest()
        assert found is not None
        return found


@pytest.fixture
def make() -> Iterator[Callable[..., Writing]]:
    made: list[Writing] = []

    def make(
        listeners: dict[str, Callable[[], Any]] | None = None, kept: Checkpoint | None = None, **first: Any
    ) -> Writing:
        made.append(Writing(evolve(FIRST, **{"folders": ["before", "now"], **first}), listeners or {}))
        if kept is not None:
            made[-1].checkpointer._store.keep(kept)
        made[-1].checkpointer.start()
        return made[-1]

    yield make
    for each in made:
        each.checkpointer.stop(10)


def test_a_run_is_known_of_before_its_first_batch(make: Callable[..., Writing]) -> None:
    assert make().newest.number == FIRST.number


def test_where_sources_are_is_known_before_the_first_batch(make: Callable[..., Writing]) -> None:
    # A file that comes while the program is down is new only to who knows which were there before.
    writing = make()
    assert writing.position == {"known": ["a file"]}
    writing.source.answer = lambda: {"known": ["a file", "another"]}
    writing.checkpointer.begin(5000)
    assert (writing.newest.zero_time_ms, writing.newest.last_time_ms) == (5000, 5000)
    assert writing.position == {"known": ["a file", "another"]}


def test_behind_the_first_all_that_was_due_before_is_known(make: Callable[..., Writing]) -> None:
    writing = make(begun=3)
    assert writing.newest.begun == 3
    writing.save(1)
    assert writing.newest.begun == 1


class Outputs:
    """A journal of outputs, which says what was there when it began."""

    def __init__(self, directory: Disk) -> None:
        self._directory = directory
        self.found: Checkpoint | None = None

    def start(self) -> None:
        self.found = CheckpointStore(self._directory).newest()

    def clean_up(self, _before_ms: int) -> None:
        """Nothing to clean up."""


def test_what_outputs_an_earlier_run_has_done_is_kept_until_this_run_is_known_of() -> None:
    writing = Writing(evolve(FIRST, folders=["now"]), {})
    outputs = Outputs(writing.disk)
    writing.checkpointer._outputs = cast(Any, outputs)
    writing.checkpointer.start()
    writing.checkpointer.stop(10)
    assert outputs.found is not None
    assert outputs.found.number == FIRST.number


def test_what_changes_is_gathered(make: Callable[..., Writing]) -> None:
    writing = make()
    writing.table._files[2000] = "file:/somewhere/now/rdd-1"
    writing.save(3, pending=(2000, 3000))
    newest = writing.newest
    assert (newest.last_time_ms, newest.pending, newest.needed_ms) == (3000, {2000: 3, 3000: 1}, 2000)
    assert newest.tables[0].files == {2000: "now/rdd-1"}
    assert (newest.inputs[0].stream_id, newest.inputs[0].rate) == (0, 5.0)


def test_a_file_is_deleted_when_no_kept_checkpoint_has_it(make: Callable[..., Writing]) -> None:
    writing = make()
    writing.table._files[1000] = "file:/somewhere/now/rdd-1"
    writing.save(1)
    del writing.table._files[1000]
    writing.checkpointer.discard_file("file:/somewhere/now/rdd-1")
    for number in range(2, 20):
        files = [file for each in writing.checkpointer._store.kept for table in each.tables for file in table.files]
        assert not files or "file:/somewhere/now/rdd-1" not in writing.deleted
        writing.save(number)
    assert writing.deleted.count("file:/somewhere/now/rdd-1") == 1


def test_the_folder_of_an_earlier_run_goes_with_the_last_checkpoint_that_leads_there(
    make: Callable[..., Writing],
) -> None:
    writing = make()
    assert writing.deleted == ["before"]
    again = make(tables=[evolve(writing.program.saved().tables[0], files={1000: "before/rdd-1"})])
    for number in range(1, 10):
        again.save(number)
    assert again.deleted == []
    again.save(10)
    assert again.deleted == ["before"]


def test_streams_that_no_checkpoint_has_any_more_are_forgotten(make: Callable[..., Writing]) -> None:
    saved = [SavedInput("source", "receiverStream", 0), SavedInput("dropped", "receiverStream", 3)]
    found = evolve(FIRST, inputs=saved, next_stream_id=5)
    writing = make(kept=found, number=2, next_stream_id=5, folders=["now"])
    assert writing.newest.next_stream_id == 5
    for number in range(1, 9):
        writing.save(number)
    # Of 2 and 4 there was nothing already; the one gone on from has 3 still.
    assert (writing.forgotten, writing.deleted) == ([{2, 4}], ["receivedData/2", "receivedData/4"])
    writing.save(9)
    writing.save(10)
    assert (writing.forgotten, writing.deleted[2:]) == ([{2, 4}, {3}], ["receivedData/3"])


def test_streams_that_could_not_be_forgotten_are_so_the_next_time(make: Callable[..., Writing]) -> None:
    writing = make(next_stream_id=3, folders=["now"])
    forgotten: list[set[int]] = []

    def forget(stream_ids: set[int]) -> None:
        forgotten.append(stream_ids)
        if len(forgotten) == 1:
            raise WriteAheadLogError("the disk is full")

    writing.checkpointer._forget_streams = forget
    for number in range(3):
        writing.save(number)
    assert forgotten == [{2}, {2}]
    assert writing.deleted == ["receivedData/2"]


def test_blocks_that_the_oldest_kept_checkpoint_needs_are_not_cleaned_up(make: Callable[..., Writing]) -> None:
    writing = make()
    for number in range(1, 13):
        writing.table._files[number * 1000] = f"file:/somewhere/now/rdd-{number}"
        writing.save(number)
    oldest_ms = (12 - 9) * 1000  # the tenth from the end
    remember_ms = writing.program.context.graph.max_input_remember_ms
    assert writing.cleanable[-1] == oldest_ms - max(remember_ms, 1000)


def test_blocks_that_a_state_is_made_again_from_are_not_cleaned_up(make: Callable[..., Writing]) -> None:
    writing = make()
    writing.table._files[1000] = "file:/somewhere/now/rdd-1"
    for number in range(1, 30):
        writing.save(number)
    # It was not checkpointed since.
    assert writing.cleanable[-1] <= 1000


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda: [][0], "the position of input stream files cannot be had: IndexError: list index out of range"),
        (lambda: {"known": {b"a file"}}, "the position of input stream files is no JSON: Object of type set"),
    ],
    ids=["raises", "no JSON"],
)
def test_a_source_that_does_not_say_where_it_is_is_named(
    answer: Callable[[], Any], reason: str, make: Callable[..., Writing]
) -> None:
    writing = make()
    writing.source.answer = answer
    for number in range(3):
        writing.save(number)
    assert (writing.told, writing.checkpointer.failures) == ([2], 3)
    assert writing.reasons[0].startswith(reason)
    # Nor does a run begin.
    with pytest.raises(CheckpointError, match=reason.partition(":")[0]):
        writing.checkpointer.begin(0)
    writing.source.answer = lambda: {"known": []}
    writing.save(4)
    assert (writing.position, writing.checkpointer.failures) == ({"known": []}, 0)


def test_a_listener_whose_value_is_no_json_has_what_it_kept_last(
    make: Callable[..., Writing], caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[Any] = [object(), {1, 2}, {"k": (1,)}]
    writing = make(listeners={"rates": lambda: answers.pop(), "none": object})
    for number in range(1, 4):
        writing.save(number)
        assert writing.newest.listeners == {"rates": {"k": [1]}}
    assert not writing.told
    # Once as long as it goes on.
    told = [record.getMessage() for record in caplog.records if "a listener's value" in record.getMessage()]
    assert ["listener=rates" in each for each in told] == [False, True]


def test_a_listener_that_fails_has_what_it_kept_last(make: Callable[..., Writing]) -> None:
    answers: list[Any] = [{"k": 1}]
    writing = make(listeners={"good": lambda: 7, "bad": lambda: answers.pop()})
    writing.save(1)
    writing.save(2)
    assert writing.newest.last_time_ms == 2000
    assert writing.newest.listeners == {"good": 7, "bad": {"k": 1}}


def test_failures_in_a_row_are_told_once_and_again_after_a_success(make: Callable[..., Writing]) -> None:
    writing = make()

    def fail(operation: str, _name: str) -> None:
        if operation == "write":
            raise full_disk()

    for expected in ([2], [2, 2]):
        writing.disk.hook = fail
        for number in range(3):
            writing.save(number)
        assert writing.told == expected
        writing.disk.hook = lambda _operation, _name: None
        writing.save(4)
    assert writing.checkpointer.failures == 0


def test_nothing_is_deleted_while_the_disk_is_full(make: Callable[..., Writing]) -> None:
    writing = make()
    before = writing.disk.copy().files
    deleted = list(writing.deleted)
    writing.checkpointer.discard_file("file:/somewhere/now/rdd-1")

    def fail(operation: str, _name: str) -> None:
        if operation == "write":
            raise full_disk()

    writing.disk.hook = fail
    for number in range(1, 30):
        writing.save(number)
    assert (writing.disk.files, writing.deleted) == (before, deleted)
    assert writing.cleanable == [-1]


def test_a_checkpoint_says_how_much_was_journalled(make: Callable[..., Writing]) -> None:
    writing = make(journaled=3)
    # What the run before knew of is no concern where nothing is journalled any more.
    assert writing.newest.journaled == 0
    writing.journaled = 7
    writing.save(1)
    assert writing.newest.journaled == 7


def test_what_comes_behind_a_checkpoint_was_begun_by_this_run_alone(make: Callable[..., Writing]) -> None:
    writing = make(begun=3)
    writing.save(1)
    assert writing.newest.begun == 1
