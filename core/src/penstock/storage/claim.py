"""``Claim``: the right of one driver to change a checkpoint directory, which a newer driver takes from it.

Each driver writes a claim, a file with a higher number than all before, into the folder ``claims`` before it reads the
directory. An owner looks whether its claim is still the newest after each write and before anybody acts on it, and
before each deletion. Why no acknowledged write is lost:

1. A number has one owner. A driver that does not find its new claim alone under its number withdraws it: of two drivers
   that write the same number, at least the one that looks last sees both.
2. What an owner acknowledges was written before the look that still found its claim the newest. The next driver reads
   the directory after its own claim is there, so it reads that write.
3. What was written too late is acknowledged to nobody. It cannot replace or outrank a newer file, because names begin
   with the number of the claim.
4. A deletion that was decided before the claim was lost concerns files that no checkpoint of that time needs.

This asks a storage only for a file that is listed once it is written. Local file systems have ``flock`` as well: an
owner holds a shared lock during look and change, and a new driver waits for these locks after it wrote its claim, so
that no change is in progress when it reads.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import asdict, frozen

from penstock.errors import CheckpointError, ClaimLostError, shown
from penstock.json_converter import StructureError, structure
from penstock.runtime.atomic_write import private
from penstock.runtime.clock import iso_time
from penstock.runtime.log import get_logger
from penstock.runtime.private_directories import make_private
from penstock.storage.directory import Directory, LocalDirectory

log = get_logger("claim")

#: Folder of the claims in a checkpoint directory.
CLAIMS = "claims"

_NAME = re.compile(r"claim-\d{10}-[0-9a-f]{16}")
_LOCK_TIMEOUT_S = 30.0
_LOCK_PAUSE_S = 0.005
# Drivers that start at the same moment withdraw their claims, and try again after a random pause.
_ATTEMPTS = 10
_LONGEST_PAUSE_S = 0.5


@frozen
class Owner:
    """The driver that took a claim; ``started_ms`` is the time of that."""

    host: str
    pid: int
    application: str
    application_id: str
    started_ms: int

    def __str__(self) -> str:
        application, since = shown(self.application), iso_time(self.started_ms)
        return f"{application} ({self.application_id}), process {self.pid} on host {self.host}, since {since}"


def claim_name(number: int) -> str:
    """A new name for a claim; the name of a newer claim is greater."""
    return f"claim-{number:010d}-{secrets.token_hex(8)}"


def claims_among(names: Iterable[str]) -> list[str]:
    """The claims among the files of a folder, oldest first."""
    return sorted(filter(_NAME.fullmatch, names))


def number_of(claim: str) -> int:
    """The number in the name of a claim."""
    return int(claim.split("-")[1])


def newer_claim(own: str, claims: Iterable[str]) -> str | None:
    """The whole decision: the claim that took the directory from ``own``; ``None`` if there is none.

    Owners delete claims that are older than their own, so the newest one is always there, unless somebody emptied the
    directory. Then a driver that starts afresh has another claim than ``own``, with any number.
    """
    newest = max(claims, default=own)
    return None if newest == own else newest


class Claim:
    """A claim on a directory that was taken; any thread may use it. ``on_lost`` is called once, when it is lost."""

    def __init__(self, directory: Directory, name: str) -> None:
        self._claims = directory.child(CLAIMS)
        self._location = directory.location()
        self._name = name
        is_local = isinstance(directory, LocalDirectory)
        self._lock = Path(self._claims.location(".lock")) if is_local else None
        #: Higher than the number of every earlier claim on the directory.
        self.number = number_of(name)
        self.on_lost: Callable[[ClaimLostError], object] = lambda _error: None
        #: The error with which the claim was found lost.
        self.lost: ClaimLostError | None = None

    @classmethod
    def take(cls, directory: Directory, owner: Owner, used: int = 0, timeout_s: float = _LOCK_TIMEOUT_S) -> Claim:
        """Take a directory over from its present owner, if there is one.

        Args:
            directory: the checkpoint directory.
            owner: this driver.
            used: the highest number that is known from the names of files.
            timeout_s: wait for the changes that the present owner is making.

        Raises:
            CheckpointError: the present owner does not finish a change, or other drivers start all the time.
            OSError: the directory cannot be read or written.
        """
        files = directory.child(CLAIMS)
        for _ in range(_ATTEMPTS):
            earlier = claims_among(files.names())
            number = max([used, *map(number_of, earlier)]) + 1
            name = claim_name(number)
            files.write(name, json.dumps(asdict(owner)).encode(), sync=True)
            if [claim for claim in claims_among(files.names()) if number_of(claim) >= number] == [name]:
                break
            files.delete(name)
            time.sleep(random.uniform(0, _LONGEST_PAUSE_S))
        else:
            raise CheckpointError(
                f"other drivers start on the checkpoint directory {directory.location()} at this moment: start one"
            )
        claim, deadline = cls(directory, name), time.monotonic() + timeout_s

        def wait() -> None:
            if time.monotonic() > deadline:
                files.delete(name)
                before = claim._owner_of(earlier[-1]) if earlier else "an unknown driver"
                raise CheckpointError(
                    f"the checkpoint directory {directory.location()} is being changed by another driver, which has "
                    f"not finished for {timeout_s:g} s: {before}. It is suspended, or its disk does not answer. End or "
                    "resume that process, then start this program again"
                )

        with _locked(claim._lock, fcntl.LOCK_EX, wait):
            # No change is in progress any more.
            pass
        for old in earlier:
            files.delete(old)
        log.info("checkpoint directory claimed", directory=directory.location(), claim=claim.number)
        return claim

    def check(self) -> None:
        """Raise ``ClaimLostError`` if another driver has taken the directory over."""
        if self.lost is None:
            newer = newer_claim(self._name, claims_among(self._claims.names()))
            if newer is None:
                return
            self.lost = ClaimLostError(
                f"the checkpoint directory {self._location} was taken over by another driver: {self._owner_of(newer)}. "
                "This driver stops; it acknowledges and deletes nothing more. A directory has one driver: if both were "
                "to run, give each its own"
            )
            self.on_lost(self.lost)
        raise self.lost

    @contextmanager
    def held(self, *, deletes: bool = False) -> Iterator[None]:
        """Change the directory in the ``with`` block; raises ``ClaimLostError`` if the change does not count.

        Under a lock, and before a deletion, the check comes first. Otherwise it comes after the change, once.
        """
        with _locked(self._lock, fcntl.LOCK_SH, self.check) as locked:
            if locked or deletes:
                self.check()
            yield
            if not (locked or deletes):
                self.check()

    def _owner_of(self, name: str) -> str:
        try:
            return str(structure(json.loads(self._claims.read(name)), Owner, is_open=True))
        except (OSError, ValueError, StructureError) as error:
            return f"unknown, because {name} cannot be read ({error})"


@contextmanager
def _locked(path: Path | None, kind: int, wait: Callable[[], object]) -> Iterator[bool]:
    """Hold a lock if the file system has any; yield whether. ``wait`` is called while another process holds it."""
    if path is None:
        yield False
        return
    make_private(path.parent)
    descriptor = private(path, os.O_RDWR | os.O_CREAT)
    try:
        yield _lock(descriptor, kind, wait)
    finally:
        # Closing releases the lock.
        os.close(descriptor)


def _lock(descriptor: int, kind: int, wait: Callable[[], object]) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            wait()
            time.sleep(_LOCK_PAUSE_S)
        # Some network file systems have no locks.
        except OSError:
            return False
        else:
            return True
