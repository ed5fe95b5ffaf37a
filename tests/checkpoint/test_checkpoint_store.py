"""``CheckpointStore``: however its files are damaged, it reads a checkpoint that was written, or raises an error."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from attrs import evolve
from pyspark import SparkContext
from tests.checkpoint.samples import Disk, SavedInput, SavedState, numbered
from tests.helpers.odd_names import ODD_NAMES

from penstock.checkpoint.checkpoint_format import Checkpoint
from penstock.checkpoint.checkpoint_store import CheckpointStore
from penstock.checkpoint.restore import recovery
from penstock.errors import CheckpointError
from penstock.journal import segment
from penstock.journal.segment import frame
from penstock.storage.directory import Durability, LocalDirectory


def written(*numbers: int) -> tuple[Disk, CheckpointStore]:
    disk = Disk()
    store = CheckpointStore(disk)
    for number in numbers:
        store.write(numbered(number))
    return disk, store


def name(number: int) -> str:
    return f"checkpoint-{number:010d}"


def test_checkpoint_directory_is_not_percent_decoded_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Hadoop, through which it was written, does not decode it either.
    CheckpointStore(LocalDirectory(tmp_path / "a%20b")).write(numbered(1))
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    assert recovery.find_newest(f"file://{tmp_path}/a%20b") == numbered(1)
    assert recovery.find_newest(f"file://{tmp_path}/a b") is None


def test_unfinished_files_of_killed_drivers_are_deleted(tmp_path: Path) -> None:
    for unfinished in (".checkpoint-0000000001.0123abcd.partial", ".bashrc"):
        (tmp_path / unfinished).write_bytes(b"a part")
    CheckpointStore(LocalDirectory(tmp_path)).write(numbered(1))
    assert sorted(path.name for path in tmp_path.iterdir()) == [".bashrc", "checkpoint-0000000001"]


def test_newest_checkpoint_is_read(caplog: pytest.LogCaptureFixture) -> None:
    disk, _store = written(1, 2, 3)
    assert CheckpointStore(disk).newest() == numbered(3)
    assert CheckpointStore(disk).last_number() == 3
    assert "damaged" not in caplog.text


def test_damage_of_newer_checkpoints_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    disk, _store = written(1, 2, 3)
    disk.files[name(3)][-1] ^= 1
    assert CheckpointStore(disk).newest() == numbered(2)
    assert "newer checkpoints damaged, using an older one" in caplog.text
    assert f"damaged=['{name(3)}: it is truncated" in caplog.text


class Syncing(Disk):
    def __init__(self) -> None:
        super().__init__()
        self.synced: list[bool] = []

    def write(self, name: str, data: bytes, *, sync: bool = False) -> None:
        super().write(name, data, sync=sync)
        self.synced.append(sync)


@pytest.mark.parametrize(
    ("durability", "unsynced"), [(Durability.FSYNC, 0), (Durability.FLUSH, 4), (Durability.NONE, 4)]
)
def test_first_checkpoint_of_a_run_and_then_at_least_every_fifth_is_synced(
    durability: Durability, unsynced: int
) -> None:
    disk = Syncing()
    store = CheckpointStore(disk, durability)
    announced = []
    for number in range(1, 12):
        announced.append(store.syncs_next)
        store.write(numbered(number))
    assert disk.synced == announced == [index % (unsynced + 1) == 0 for index in range(11)]


@pytest.mark.parametrize("odd", ODD_NAMES.values(), ids=ODD_NAMES)
def test_names_of_any_form_are_read_as_they_were_written(odd: str, tmp_path: Path) -> None:
    inputs = [SavedInput(odd, "receiverStream", 0, 1.0, {odd: odd})]
    states = [SavedState(odd, "updateStateByKey", odd, 1, odd, {1000: odd})]
    checkpoint = evolve(numbered(1), application=odd, inputs=inputs, states=states, listeners={odd: odd})
    folder = LocalDirectory(tmp_path / "\u6570 100%20\u202e")
    CheckpointStore(folder).write(checkpoint)
    assert CheckpointStore(folder).newest() == checkpoint


def test_checkpoint_may_be_larger_than_a_record_of_the_write_ahead_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "MAX_PAYLOAD_BYTES", 10_000)
    large = evolve(numbered(1), listeners={"files": {f"part-{number}": number for number in range(1_000)}})
    disk = Disk()
    CheckpointStore(disk).write(large)
    assert len(disk.read(name(1))) > 10_000
    assert CheckpointStore(disk).newest() == large


def test_empty_directory_has_no_checkpoint() -> None:
    assert CheckpointStore(Disk()).newest() is None
    assert CheckpointStore(Disk()).last_number() == 0
    assert CheckpointStore(Disk()).last_claim() == 0


def test_checkpoint_truncated_at_any_byte_is_skipped_or_named_if_it_is_the_only_one() -> None:
    disk, _store = written(1, 2)
    only, _store = written(2)
    whole = bytes(disk.files[name(2)])
    # Nor is it sound with bytes after it.
    for data in (*(whole[:length] for length in range(len(whole))), whole + b"x"):
        disk.files[name(2)] = only.files[name(2)] = bytearray(data)
        assert CheckpointStore(disk).newest() == numbered(1), len(data)
        with pytest.raises(CheckpointError, match=name(2)):
            CheckpointStore(only).newest()


def test_flipped_bits_never_yield_a_different_checkpoint() -> None:
    rng = random.Random(1)
    whole, _store = written(*range(1, 6))
    sound = {number: bytes(whole.files[name(number)]) for number in range(1, 6)}
    for _ in range(1000):
        disk = whole.copy()
        for _ in range(rng.randint(1, 12)):
            file = disk.files[name(rng.randint(1, 5))]
            file[rng.randrange(len(file))] ^= 1 << rng.randrange(8)
        left = [number for number, data in sound.items() if bytes(disk.files[name(number)]) == data]
        if left:
            assert CheckpointStore(disk).newest() == numbered(max(left))
        else:
            with pytest.raises(CheckpointError, match=name(5)):
                CheckpointStore(disk).newest()


@pytest.mark.parametrize("data", [b"", b"text", frame(b"no JSON"), frame(b"{}"), frame(b"{}") * 2])
def test_file_that_is_no_checkpoint_is_skipped_or_named_if_it_is_the_only_one(data: bytes) -> None:
    disk, _store = written(1)
    disk.files[name(2)] = bytearray(data)
    assert CheckpointStore(disk).newest() == numbered(1)
    del disk.files[name(1)]
    with pytest.raises(CheckpointError, match=f"no checkpoint is sound.*{name(2)}: it is"):
        CheckpointStore(disk).newest()


def test_same_damage_of_several_checkpoints_is_named_once() -> None:
    disk, _store = written(1, 2, 3)
    for number in (1, 2):
        disk.files[name(number)][-1] ^= 1
    disk.files[name(3)] = bytearray(frame(b"{}"))
    with pytest.raises(CheckpointError) as error:
        CheckpointStore(disk).newest()
    assert str(error.value).count("its checksum does not match") == 1
    assert f"{name(2)}, {name(1)}: it is truncated or damaged" in str(error.value)


@pytest.mark.parametrize("payload", [b"{}", b"[]", b'["format"]', b'"format"', b"1"])
def test_checkpoint_without_a_format_is_refused(payload: bytes) -> None:
    with pytest.raises(CheckpointError, match="it has no format version"):
        Checkpoint.from_json(payload)


def test_checkpoint_of_an_older_format_is_refused_by_file_and_version() -> None:
    disk = Disk({name(7): frame(b'{"format":0}')})
    with pytest.raises(
        CheckpointError, match=f"{name(7)}: it has format version 0 .* reads version {Checkpoint.format}"
    ):
        CheckpointStore(disk).newest()


def test_checkpoint_that_cannot_be_read_now_is_not_taken_for_a_damaged_one() -> None:
    # The next ten checkpoints of a run that used the older one would have the newer one deleted.
    disk, _store = written(1, 2)

    def hook(operation: str, file: str) -> None:
        if (operation, file) == ("read", name(2)):
            raise OSError("bad sector")

    disk.hook = hook
    with pytest.raises(OSError, match="bad sector"):
        CheckpointStore(disk).newest()


def test_ten_checkpoints_are_retained_and_older_ones_deleted() -> None:
    disk, store = written(*range(5, 20))
    assert sorted(disk.files) == [name(number) for number in range(10, 20)]
    assert [each.number for each in store.retained] == list(range(10, 20))
    assert store.write(numbered(20)) == numbered(11)


def test_files_and_folders_of_others_are_not_touched(tmp_path: Path) -> None:
    others = ["checkpoint-1", "checkpoint-1700000000000", "checkpoint-0000000009.bk", "checkpoint-x", "program-x", "a"]
    for other in others:
        (tmp_path / other).write_bytes(b"other")
    (tmp_path / name(99)).mkdir()
    directory = LocalDirectory(tmp_path)
    assert CheckpointStore(directory).newest() is None
    store = CheckpointStore(directory)
    for number in range(1, 13):
        store.write(numbered(number))
    assert CheckpointStore(directory).newest() == numbered(12)
    assert store.last_number() == 12
    assert {other for other in others if (tmp_path / other).read_bytes() == b"other"} == set(others)
    assert (tmp_path / name(99)).is_dir()


def test_recovered_run_retains_the_checkpoint_it_recovered_from() -> None:
    disk, _store = written(1, 2, 3)
    store = CheckpointStore(disk)
    store.retained = [numbered(3)]
    assert store.write(numbered(4)) == numbered(3)
    assert sorted(disk.files) == [name(3), name(4)]
    disk.files[name(4)][20] ^= 1
    assert CheckpointStore(disk).newest() == numbered(3)


def test_nothing_is_deleted_when_the_disk_is_full() -> None:
    disk, store = written(*range(1, 11))
    before = disk.copy().files
    disk.fail_at(range(1))
    with pytest.raises(OSError, match="No space"):
        store.write(numbered(11))
    assert disk.files == before
    assert [each.number for each in store.retained] == list(range(1, 11))


def test_written_checkpoint_counts_even_if_old_ones_cannot_be_deleted() -> None:
    disk, store = written(*range(1, 11))

    disk.fail("delete")
    for number in range(11, 14):
        assert store.write(numbered(number)) == numbered(number - 9)
    assert [each.number for each in store.retained] == list(range(4, 14))
    disk.fail()
    store.write(numbered(14))
    assert sorted(disk.files) == [name(number) for number in range(5, 15)]


# -- saved programs --


def test_saved_program_is_read_unchanged_or_refused_by_name() -> None:
    disk = Disk()
    store = CheckpointStore(disk)
    data = bytes(range(256)) * 4
    saved = store.write_program(data)
    assert store.read_program(saved) == data
    rng = random.Random(2)
    for length in range(len(data)):
        disk.files[saved] = bytearray(data[:length])
        with pytest.raises(CheckpointError, match=re.escape(saved)):
            store.read_program(saved)
    for _ in range(200):
        file = bytearray(data)
        file[rng.randrange(len(file))] ^= 1 << rng.randrange(8)
        disk.files[saved] = file
        with pytest.raises(CheckpointError, match=f"{saved} is damaged"):
            store.read_program(saved)


def test_saved_program_is_not_written_again_while_it_is_intact() -> None:
    disk = Disk()
    store = CheckpointStore(disk)
    saved = store.write_program(b"functions")
    disk.fail("write")
    assert store.write_program(b"functions") == saved
    disk.fail()
    disk.files[saved] = bytearray(b"function")
    assert store.write_program(b"functions") == saved
    assert store.read_program(saved) == b"functions"


def test_missing_program_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="program-00000000-3 cannot be read"):
        CheckpointStore(LocalDirectory(tmp_path)).read_program("program-00000000-3")


def test_programs_of_no_retained_checkpoint_are_deleted() -> None:
    disk = Disk()
    store = CheckpointStore(disk)
    old, new = store.write_program(b"old"), store.write_program(b"new")
    for number in range(1, 11):
        store.write(evolve(numbered(number), program=old))
    assert new not in disk.files
    new = store.write_program(b"new")
    for number in range(11, 20):
        store.write(evolve(numbered(number), program=new))
    assert {old, new} < set(disk.files)
    store.write(evolve(numbered(20), program=new))
    assert old not in disk.files
