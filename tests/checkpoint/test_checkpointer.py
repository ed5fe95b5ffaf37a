"""``Checkpointer``: what it gathers, and that it deletes nothing that a retained checkpoint refers to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from attrs import evolve
from tests.checkpoint.samples import FIRST, Disk, FakeProgram
from tests.helpers import Gate

from penstock.checkpoint.checkpoint_format import BatchRange, Checkpoint, LateBatches, SavedInput
from penstock.checkpoint.checkpoint_store import CheckpointStore
from penstock.checkpoint.checkpointer import Checkpointer
from penstock.checkpoint.program import Program
from penstock.checkpoint.restore.recovery import RecoveredRun
from penstock.conf import Settings
from penstock.errors import CheckpointError, ClaimLostError, ConfigurationError, WriteAheadLogError
from penstock.graph.input_dstreams import PulledInputDStream
from penstock.listen.events import CheckpointFailed, Event
from penstock.schedule.unfinished_batches import UnfinishedBatches
from penstock.storage.directory import Directory
from penstock_testing import ManualClock


class Source:
    """A recoverable source with a position."""

    def __init__(self) -> None:
        self.answer: Callable[[], Any] = lambda: {"known": ["a file"]}

    def __getattr__(self, name: str) -> Any:
        if name in ("open", "start", "compute", "clean_up", "stop", "restore", "compute_again"):
            return lambda *_args: None
        raise AttributeError(name)

    def position(self) -> Any:
        return self.answer()


class FakeDirectory:
    """A checkpoint directory that records what is deleted."""

    def __init__(self, files: Directory) -> None:
        self.files = files
        self.store = CheckpointStore(files)
        self.deleted: list[str] = []
        self.delete_rdd = self.delete_folder = self.deleted.append

    def delete_empty_folders(self) -> None:
        self.deleted.append("empty folders")

    @contextmanager
    def errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ConfigurationError(f"unusable: {error}") from error


class Outputs:
    """A log of completed outputs that notes the newest checkpoint at its start."""

    def __init__(self, files: Directory) -> None:
        self._files = files
        self.found: Checkpoint | None = None
        #: The last clean-up: before which time, and the batches that stay.
        self.cleaned: tuple[int, list[int]] | None = None

    def start(self) -> None:
        self.found = CheckpointStore(self._files).newest()

    def clean_up(self, before_ms: int, pending: Collection[int]) -> None:
        self.cleaned = before_ms, list(pending)


class Writing:
    """A checkpointer of a program with one state, on a disk in memory unless another directory is given."""

    def __init__(
        self,
        first: Checkpoint,
        listeners: dict[str, Callable[[], Any]],
        directory: Directory | None = None,
        obsolete: Sequence[str] = (),
    ) -> None:
        self.disk = Disk()
        self.program = FakeProgram()
        self._files = directory or self.disk
        self.directory = FakeDirectory(self._files)
        self.program.state("sums")
        self.source = Source()
        PulledInputDStream(self.program.graph, lambda: self.source).set_name("files")
        self.outputs = Outputs(self._files)
        self.forget: Callable[[set[int]], object] = lambda _ids: None
        self.forgotten: list[set[int]] = []
        self.failures: list[int] = []
        self.reasons: list[str] = []
        self.cleanable: list[int] = []
        self.retained: list[list[range]] = []
        self.block_log = SimpleNamespace(last_number=0, sync=lambda: None)
        program = Program(
            self.program.context,
            cast(Any, SimpleNamespace()),
            Settings.parse({}),
            ManualClock(0),
            self.program.graph,
        )
        run = RecoveredRun(
            cast(Any, self.directory),
            first,
            obsolete=obsolete,
            block_log=cast(Any, self.block_log),
            completed_outputs=cast(Any, self.outputs),
        )
        tracker = SimpleNamespace(rates=lambda: {0: 5.0}, blocks=SimpleNamespace(forget_streams=self._forget_streams))
        self.checkpointer = Checkpointer(program, run, cast(Any, tracker), listeners, self._post, self._release)
        self._done = threading.Semaphore(0)
        # Nothing public reports the end of a write that failed.
        write = self.checkpointer._write

        def counted(taken: Checkpoint | Exception) -> None:
            write(taken)
            self._done.release()

        # Replaced to count the writes, also those that fail.
        self.checkpointer._write = counted  # type: ignore[method-assign]

    @property
    def deleted(self) -> list[str]:
        """What was deleted, in order, without the empty folders."""
        return [name for name in self.directory.deleted if name != "empty folders"]

    def _post(self, event: Event) -> None:
        assert isinstance(event, CheckpointFailed)
        self.failures.append(event.failures)
        self.reasons.append(event.reason)

    def _release(self, before_ms: int, retained: Sequence[range]) -> None:
        self.cleanable.append(before_ms)
        self.retained.append(list(retained))

    def _forget_streams(self, stream_ids: set[int]) -> None:
        self.forgotten.append(stream_ids)
        self.forget(stream_ids)

    def save(self, number: int, pending: tuple[int, ...] = ()) -> None:
        """Save batch ``number``; return when that is written or has failed."""
        time_ms = number * 1000
        self.checkpointer.save(UnfinishedBatches(time_ms, pending=frozenset(pending)), time_ms - 1000)
        assert self._done.acquire(timeout=30)

    @property
    def files(self) -> dict[int, str]:
        """The checkpointed RDDs of the state, by time."""
        files: dict[int, str] = self.state._files  # only a job of Spark adds one by a public way
        return files

    @property
    def state(self) -> Any:
        return self.program.states()["sums"]

    @property
    def position(self) -> Any:
        """The source's position in the newest checkpoint."""
        saved = {each.name: each.position for each in self.newest.inputs}["files"]
        return None if saved is None else saved["source"]

    @property
    def newest(self) -> Checkpoint:
        found = CheckpointStore(self._files).newest()
        assert found is not None
        return found


@pytest.fixture
def make() -> Iterator[Callable[..., Writing]]:
    made: list[Writing] = []

    def make(
        listeners: dict[str, Callable[[], Any]] | None = None, retained: Checkpoint | None = None, **first: Any
    ) -> Writing:
        made.append(Writing(evolve(FIRST, **{"folders": ["before", "now-state", "now"], **first}), listeners or {}))
        if retained is not None:
            made[-1].directory.store.retained = [retained]
        made[-1].checkpointer.start()
        return made[-1]

    yield make
    for each in made:
        each.checkpointer.stop(10)


def test_first_checkpoint_is_written_at_the_start(make: Callable[..., Writing]) -> None:
    assert make().newest.number == FIRST.number


def test_age_of_the_newest_checkpoint_and_failures_since_are_known(make: Callable[..., Writing]) -> None:
    writing = Writing(evolve(FIRST, folders=["now-state", "now"]), {})
    assert (writing.checkpointer.written_ms, writing.checkpointer.failures) == (None, 0)
    writing = make()
    assert (writing.checkpointer.written_ms, writing.checkpointer.failures) == (FIRST.written_ms, 0)
    writing.source.answer = lambda: 1 // 0
    writing.save(1)
    assert (writing.checkpointer.written_ms, writing.checkpointer.failures) == (FIRST.written_ms, 1)


def test_source_positions_are_saved_before_the_first_batch(make: Callable[..., Writing]) -> None:
    # A recovered run can recognize new files only if it knows the old ones.
    writing = make()
    assert writing.position == {"known": ["a file"]}
    writing.source.answer = lambda: {"known": ["a file", "another"]}
    writing.checkpointer.begin(5000)
    assert (writing.newest.zero_time_ms, writing.newest.last_time_ms, writing.newest.needed_ms) == (5000, 5000, -1)
    assert writing.position == {"known": ["a file", "another"]}


def test_later_attempts_are_reset_after_the_first_checkpoint(make: Callable[..., Writing]) -> None:
    writing = make(later_attempts=3)
    assert writing.newest.later_attempts == 3
    writing.save(1)
    assert writing.newest.later_attempts == 1


def test_completed_outputs_log_starts_after_the_first_checkpoint_is_written(make: Callable[..., Writing]) -> None:
    # Until then a later run would recover from an earlier run's checkpoint, and needs that run's log.
    found = make(folders=["now-state", "now"]).outputs.found
    assert found is not None
    assert found.number == FIRST.number


def test_obsolete_folders_are_deleted_after_the_first_checkpoint_is_written() -> None:
    writing = Writing(
        evolve(FIRST, folders=["now-state", "now"]), {}, obsolete=["receivedData", "receivedBlockMetadata"]
    )
    writing.checkpointer.start()
    writing.checkpointer.stop(10)
    assert writing.directory.deleted == ["empty folders", "receivedData", "receivedBlockMetadata"]
    failing = Writing(evolve(FIRST, folders=["now-state", "now"]), {}, obsolete=["receivedData"])
    failing.disk.fail_at(range(1))
    with pytest.raises(ConfigurationError, match=r"unusable: .*No space left"):
        failing.checkpointer.start()
    assert failing.deleted == []


def test_checkpoint_contains_batches_states_and_inputs(make: Callable[..., Writing]) -> None:
    writing = make(pending={2000: 3})
    writing.files[2000] = "file:/somewhere/now/rdd-1"
    writing.save(3, pending=(2000, 3000))
    newest = writing.newest
    assert newest.number == FIRST.number + 1
    assert (newest.last_time_ms, newest.pending, newest.needed_ms) == (3000, {2000: 3, 3000: 1}, 2000)
    # The graph has not started.
    assert newest.zero_time_ms == -1
    assert newest.states[0].files == {2000: "now/rdd-1"}
    assert (newest.inputs[0].stream_id, newest.inputs[0].rate) == (0, 5.0)
    # The next one that no input has had.
    assert newest.next_stream_id == 2


def test_blocks_of_a_failed_batch_are_retained_without_those_after_it(make: Callable[..., Writing]) -> None:
    writing = make()
    for stream in writing.program.graph.inputs:
        stream.remember(4000)
    writing.files[2000] = "file:/somewhere/now/rdd-1"
    for number in range(3, 30):
        writing.files[number * 1000] = f"file:/somewhere/now/rdd-{number}"
        writing.save(number, pending=(3000,))
    (retained,) = writing.retained[-1]
    assert retained == range(3000 - 4000, 3001)
    # The tenth newest checkpoint is after batch 20.
    assert writing.cleanable[-1] == 20_000 - 4000
    assert writing.outputs.cleaned == (20_000, [3000])
    # The state store keeps what the failed batch needs.
    assert writing.checkpointer.recoverable_ms == 3000


def test_a_day_of_late_batches_is_one_entry(make: Callable[..., Writing]) -> None:
    writing = make()
    writing.checkpointer.save(UnfinishedBatches(86_400_000, late=(range(4000, 86_401_000, 1000),)), 0)
    writing.checkpointer.stop(10)
    assert writing.newest.late == [LateBatches(4000, 86_400_000, 1)]
    assert writing.newest.next_ms == 4000
    assert writing.newest.late[0].times(1000) == range(4000, 86_401_000, 1000)


def test_times_that_were_never_due_are_one_entry(make: Callable[..., Writing]) -> None:
    writing = make()
    writing.checkpointer.save(UnfinishedBatches(9000), 0, [range(4000, 8000, 1000)])
    writing.checkpointer.stop(10)
    assert writing.newest.skipped == [BatchRange(4000, 7000)]


def test_single_late_batch_is_an_entry_with_its_attempts(make: Callable[..., Writing]) -> None:
    writing = make(pending={2000: 3})
    writing.checkpointer.save(UnfinishedBatches(5000, late=(range(2000, 2001),)), 0)
    writing.checkpointer.stop(10)
    assert writing.newest.late == [LateBatches(2000, 2000, 3)]
    assert list(LateBatches(7, 9, 1).times(1)) == [7, 8, 9]


def test_next_batch_follows_the_last_one(make: Callable[..., Writing]) -> None:
    writing = make()
    writing.save(3)
    assert writing.newest.next_ms == 4000


def test_rdd_is_deleted_when_no_retained_checkpoint_mentions_it(make: Callable[..., Writing]) -> None:
    writing = make()
    writing.files[1000] = "file:/somewhere/now/rdd-1"
    writing.save(1)
    del writing.files[1000]
    writing.checkpointer.discard_file("file:/somewhere/now/rdd-1")
    for number in range(2, 20):
        files = [
            file for each in writing.directory.store.retained for state in each.states for file in state.files.values()
        ]
        assert ("now/rdd-1" in files) is ("file:/somewhere/now/rdd-1" not in writing.deleted)
        writing.save(number)
    assert writing.deleted.count("file:/somewhere/now/rdd-1") == 1


def test_folder_of_an_earlier_run_is_deleted_with_the_last_checkpoint_that_refers_to_it(
    make: Callable[..., Writing],
) -> None:
    writing = make()
    assert writing.deleted == ["before"]
    again = make(states=[evolve(writing.program.saved().states[0], files={1000: "before/rdd-1"})])
    for number in range(1, 10):
        again.save(number)
    assert again.deleted == []
    again.save(10)
    assert again.deleted == ["before"]


def test_rdds_of_an_earlier_run_are_deleted_while_its_state_store_is_used(make: Callable[..., Writing]) -> None:
    folders = ["before-state", "before", "now-state", "now"]
    writing = make(folders=folders)
    assert writing.deleted == ["before-state", "before"]
    states = [evolve(writing.program.saved().states[0], files={1000: "now/rdd-1"}, store="before-state/1")]
    again = make(folders=folders, states=states)
    assert again.deleted == ["before"]


def test_streams_of_no_retained_checkpoint_are_forgotten(make: Callable[..., Writing]) -> None:
    saved = [SavedInput("source", "receiverStream", 0), SavedInput("dropped", "receiverStream", 3)]
    found = evolve(FIRST, inputs=saved, next_stream_id=5)
    writing = make(retained=found, number=2, next_stream_id=5, folders=["now-state", "now"])
    assert writing.newest.next_stream_id == 5
    for number in range(1, 9):
        writing.save(number)
    # No checkpoint has 2 and 4; the one that the run recovered from has 3.
    assert (writing.forgotten, writing.deleted) == ([{2, 4}], ["receivedData/2", "receivedData/4"])
    writing.save(9)
    writing.save(10)
    assert (writing.forgotten, writing.deleted[2:]) == ([{2, 4}, {3}], ["receivedData/3"])


def test_forgetting_streams_is_retried_at_the_next_checkpoint(make: Callable[..., Writing]) -> None:
    writing = make(next_stream_id=3, folders=["now-state", "now"])

    def forget(_stream_ids: set[int]) -> None:
        if len(writing.forgotten) == 1:
            raise WriteAheadLogError("the disk is full")

    writing.forget = forget
    for number in range(3):
        writing.save(number)
    assert writing.forgotten == [{2}, {2}]
    assert writing.deleted == ["receivedData/2"]


def test_blocks_needed_by_the_oldest_retained_checkpoint_are_not_released(make: Callable[..., Writing]) -> None:
    writing = make()
    for number in range(1, 13):
        writing.files[number * 1000] = f"file:/somewhere/now/rdd-{number}"
        writing.save(number)
    oldest_ms = (12 - 9) * 1000  # the tenth from the end
    remember_ms = writing.program.context.graph.max_input_remember_ms
    assert writing.cleanable[-1] == oldest_ms - max(remember_ms, 1000)


def test_blocks_that_a_state_is_recomputed_from_are_not_released(make: Callable[..., Writing]) -> None:
    writing = make()
    writing.files[1000] = "file:/somewhere/now/rdd-1"
    for number in range(1, 30):
        writing.save(number)
    # The state has not been checkpointed since.
    assert writing.cleanable[-1] <= 1000


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda: [][0], "input stream files does not give its position: IndexError: list index out of range"),
        (lambda: {"known": {b"a file"}}, "the position of input stream files is not valid JSON: Object of type set"),
    ],
    ids=["raises", "not JSON"],
)
def test_source_without_a_usable_position_is_named(
    answer: Callable[[], Any], reason: str, make: Callable[..., Writing]
) -> None:
    writing = make()
    writing.source.answer = answer
    for number in range(4):
        writing.save(number)
    assert (writing.failures, writing.checkpointer.failures) == ([3], 4)
    assert writing.reasons[0].startswith(f"CheckpointError: {reason}")
    # Nor can a run begin.
    with pytest.raises(CheckpointError, match=reason.partition(":")[0]):
        writing.checkpointer.begin(0)
    writing.source.answer = lambda: {"known": []}
    writing.save(4)
    assert (writing.position, writing.checkpointer.failures) == ({"known": []}, 0)


def test_previous_value_is_saved_if_a_listener_value_is_not_json(
    make: Callable[..., Writing], caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[Any] = [object(), {1, 2}, {"k": (1,)}]
    writing = make(listeners={"rates": lambda: answers.pop(), "none": object})
    for number in range(1, 4):
        writing.save(number)
        assert writing.newest.listeners == {"rates": {"k": [1]}}
    assert not writing.failures
    # Logged once while the failure lasts.
    logged = [record.getMessage() for record in caplog.records if "listener value not readable" in record.getMessage()]
    assert ["listener=rates" in each for each in logged] == [False, True]


def test_previous_value_is_saved_if_a_listener_raises(make: Callable[..., Writing]) -> None:
    answers: list[Any] = [{"k": 1}]
    writing = make(listeners={"good": lambda: 7, "bad": lambda: answers.pop()})
    writing.save(1)
    writing.save(2)
    assert writing.newest.last_time_ms == 2000
    assert writing.newest.listeners == {"good": 7, "bad": {"k": 1}}


def test_maximum_of_consecutive_failures_is_reported_once_per_series(make: Callable[..., Writing]) -> None:
    writing = make()
    for expected in ([3], [3, 3]):
        writing.disk.fail("write")
        for number in range(4):
            writing.save(number)
        assert writing.failures == expected
        writing.disk.fail()
        writing.save(4)
    assert writing.checkpointer.failures == 0


def test_write_is_attempted_three_times(make: Callable[..., Writing]) -> None:
    writing = make()
    writing.disk.fail_at(range(2))
    writing.save(1)
    assert (writing.newest.last_time_ms, writing.checkpointer.failures) == (1000, 0)
    writing.disk.fail_at(range(3))
    writing.save(2)
    assert (writing.newest.last_time_ms, writing.checkpointer.failures) == (1000, 1)


def test_checkpoint_of_a_driver_that_lost_its_claim_is_not_tried_again(make: Callable[..., Writing]) -> None:
    writing = make()
    before = writing.disk.count("write")
    writing.disk.fail("write", error=ClaimLostError("taken over"))
    writing.save(1)
    assert writing.disk.count("write") == before + 1
    # The claim itself reports its loss.
    assert (writing.checkpointer.failures, writing.failures) == (0, [])


def test_new_rdds_are_synced_once_and_the_state_store_with_them(
    make: Callable[..., Writing], monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, synced = make(), list[str]()
    monkeypatch.setattr(writing.disk, "child", lambda name: SimpleNamespace(sync=lambda *_known: synced.append(name)))
    monkeypatch.setattr(type(writing.state), "home", "file:/somewhere/now/state")
    for number in range(1, 4):
        writing.files[1000] = "file:/somewhere/now/rdd-1"
        writing.save(number)
    assert synced == ["now/rdd-1", "now/state"]
    writing.files[4000] = "file:/somewhere/now/rdd-2"
    writing.save(4)
    # A file that is gone needs no sync.
    del writing.files[1000]
    writing.save(5)
    assert synced == ["now/rdd-1", "now/state", "now/rdd-2", "now/state"]


def test_younger_checkpoint_replaces_the_waiting_one(make: Callable[..., Writing]) -> None:
    writing, gate = make(), Gate()
    before = writing.disk.count("write")
    writing.disk.hook = lambda operation, _name: gate() if operation == "write" else None
    writing.checkpointer.save(UnfinishedBatches(1000), 0)
    assert gate.reached.wait(30)
    for number in (2, 3, 4):
        writing.checkpointer.save(UnfinishedBatches(number * 1000), 0)
    # An error replaces nothing.
    writing.source.answer = lambda: 1 // 0
    writing.checkpointer.save(UnfinishedBatches(5000), 0)
    assert not writing.checkpointer.stop(0.01)
    gate.open()
    assert writing.checkpointer.stop(30)
    assert writing.disk.count("write") == before + 2
    assert (writing.newest.last_time_ms, writing.checkpointer.failures) == (4000, 0)


def test_nothing_is_deleted_while_the_disk_is_full(make: Callable[..., Writing]) -> None:
    writing = make()
    before = writing.disk.copy().files
    deleted = list(writing.deleted)
    writing.checkpointer.discard_file("file:/somewhere/now/rdd-1")

    writing.disk.fail("write")
    for number in range(1, 30):
        writing.save(number)
    assert (writing.disk.files, writing.deleted) == (before, deleted)
    assert writing.cleanable == [-1]


def test_checkpoint_contains_the_number_of_logged_events(make: Callable[..., Writing]) -> None:
    writing = make(logged_events=3)
    # The number that the earlier run logged does not count if this run logs nothing.
    assert writing.newest.logged_events == 0
    writing.block_log.last_number = 7
    writing.save(1)
    assert writing.newest.logged_events == 7
