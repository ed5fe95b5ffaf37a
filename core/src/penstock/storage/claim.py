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
import random
import re
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, NamedTuple

from attrs import asdict, frozen

from penstock.errors import CheckpointError, ClaimLostError, shown
from penstock.json_converter import StructureError, structure
from penstock.runtime.clock import iso_time
from penstock.runtime.log import get_logger
from penstock.runtime.private_files import make_private, private
from penstock.storage.directory import Appender, Directory, Durability, LocalDirectory

log = get_logger("claim")

#: Folder of the claims in a checkpoint directory.
CLAIMS = "claims"

_NAME = re.compile(r"claim-\d{10}-[0-9a-f]{16}")
_LOCK_TIMEOUT_S = 30.0
_LOCK_PAUSE_S = 0.005
# Drivers that start at the same moment withdraw their claims, and try again after a random pause.
_ATTEMPTS = 10
_LONGEST_PAUSE_S = 0.5


class FileNumber(NamedTuple):
    """The number in the name of a checkpoint or a segment: that of a later claim is newer. Claim 0 is none."""

    claim: int
    number: int

    def __str__(self) -> str:
        return f"{self.claim:06d}-{self.number:010d}" if self.claim else f"{self.number:010d}"

    @classmethod
    def among(cls, kind: str, names: Iterable[str]) -> list[FileNumber]:
        """The numbers of the files of a kind, oldest first; other files are ignored."""
        matches = (re.fullmatch(rf"{kind}-(?:(\d{{6,}})-)?(\d{{10}})", name) for name in names)
        return sorted(cls(int(match[1] or 0), int(match[2])) for match in matches if match)


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
        """Take a checkpoint directory over from its present owner, if there is one.

        ``used`` is the highest number that is known from the names of files. Raises ``CheckpointError`` if the present
        owner does not finish a change within ``timeout_s``, or other drivers start all the time.
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
    # Closing the file releases the lock.
    with open(path, "ab", opener=private) as file:
        yield _lock(file.fileno(), kind, wait)


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


class ClaimedDirectory(Directory):
    """A directory that one driver changes, only while it holds its claim. Numbers in file names are ``FileNumber``s."""

    def __init__(self, directory: Directory, claim: Claim) -> None:
        self._directory = directory
        self._claim = claim
        self.can_append = directory.can_append
        self.claim_number = claim.number

    def location(self, name: str = "") -> str:
        return self._directory.location(name)

    def child(self, name: str) -> ClaimedDirectory:
        return ClaimedDirectory(self._directory.child(name), self._claim)

    def all_names(self) -> list[str]:
        return self._directory.all_names()

    def changed_s(self) -> dict[str, float]:
        return self._directory.changed_s()

    def read(self, name: str) -> bytes:
        return self._directory.read(name)

    def copy_to(self, name: str, path: Path) -> None:
        self._directory.copy_to(name, path)

    def sync(self, known: Collection[str] = ()) -> set[str]:
        return self._directory.sync(known)

    @contextmanager
    def create(self, name: str, *, sync: bool = False) -> Iterator[BinaryIO]:
        with ExitStack() as until_replaced, self._directory.create(name, sync=sync) as file:
            yield file
            until_replaced.enter_context(self._claim.held())

    def delete(self, name: str) -> bool:
        with self._claim.held(deletes=True):
            return self._directory.delete(name)

    def move(self, name: str, folder: str) -> bool:
        with self._claim.held(deletes=True):
            return self._directory.move(name, folder)

    def append(self, name: str) -> Appender:
        # A new file: nobody acts on it before its first commit.
        return _ClaimedAppender(self._directory.append(name), self._claim, closes=not self.can_append)


class _ClaimedAppender(Appender):
    """Commits while the claim is held. A remote file is committed when it is closed."""

    def __init__(self, appender: Appender, claim: Claim, *, closes: bool) -> None:
        self._appender = appender
        self._claim = claim
        self._closes = closes

    def write(self, data: bytes) -> None:
        self._appender.write(data)

    def commit(self, durability: Durability = Durability.FLUSH) -> None:
        with nullcontext() if self._closes else self._claim.held():
            self._appender.commit(durability)

    def close(self) -> None:
        with self._claim.held() if self._closes else nullcontext():
            self._appender.close()
