"""Recoveries of programs without Spark, for the tests of this folder."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from attrs import evolve
from tests.checkpoint.samples import FIRST, FakeProgram

from penstock import StoredBlock
from penstock.checkpoint.checkpoint_directory import CheckpointDirectory
from penstock.checkpoint.checkpoint_format import Checkpoint
from penstock.checkpoint.checkpoint_store import CheckpointStore
from penstock.checkpoint.program import Program
from penstock.checkpoint.restore.recovery import Recovery
from penstock.conf import Settings
from penstock.spark.rdd_files import RunFolder
from penstock.storage.directory import Directory
from penstock_testing import ManualClock

NOW_MS = 5000


@cache
def _settings(conf: frozenset[tuple[str, str]]) -> Settings:
    """The settings of a configuration: to parse one takes longer than a recovery."""
    return Settings.parse(dict(conf))


def program_of(fake: FakeProgram, conf: dict[str, str], application: str = "store") -> Program:
    """A program with a configuration, on a Spark that only has a name."""
    sc = SimpleNamespace(appName=application, applicationId="local-1", getConf=lambda: SimpleNamespace(getAll=dict))
    return Program(fake.context, cast(Any, sc), _settings(frozenset(conf.items())), ManualClock(NOW_MS), fake.graph)


def directory_of(program: Program, path: Path) -> CheckpointDirectory:
    """A checkpoint directory on the local disk."""
    folder = RunFolder("now", f"file:{path}")
    return CheckpointDirectory(program.sc, program.settings, str(path), folder)


def recovery_of(path: Path, fake: FakeProgram | None = None, application: str = "store", **conf: str) -> Recovery:
    """The recovery of a program's next run.

    Args:
        path: the checkpoint directory.
        fake: the program.
        application: its name.
        conf: keys without ``spark.penstock.``, with underscores for dots.
    """
    settings = {f"spark.penstock.{name.replace('_', '.')}": value for name, value in conf.items()}
    program = program_of(fake or FakeProgram(), settings, application)
    return Recovery(program, directory_of(program, path))


def left(path: Path, **values: Any) -> Checkpoint:
    """Write the checkpoint that an earlier run has left."""
    found = evolve(FIRST, **values)
    CheckpointStore(Directory.of(str(path))).write(found)
    return found


def blocks(*numbers: int) -> list[StoredBlock]:
    """Blocks of 10 records from stream 0."""
    return [StoredBlock(f"input-0-1-{number}", 0, 10, 100, f"/{number}") for number in numbers]
