"""Runs checks: each under a time limit, none able to end the run, in this process or in one of its own."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import attrs

from penstock.runtime.global_state import GlobalState
from penstock_testing.block_store import BlockStoreKit
from penstock_testing.capabilities import Capabilities
from penstock_testing.check import Check, CheckFailure, NotApplicable, all_checks, checks_for, scale
from penstock_testing.check_report import Report, Result
from penstock_testing.feeder import Feeder
from penstock_testing.kit import Kit, ReceiverKit
from penstock_testing.listener_kit import ListenerKit
from penstock_testing.live import LiveKit
from penstock_testing.packaging_kit import PackagingKit
from penstock_testing.printed import Printed
from penstock_testing.rate_estimator_kit import RateEstimatorKit
from penstock_testing.subject import Subject

# Kind of check → its kit.
_KITS: Mapping[str, type[Kit]] = {
    "plugin": PackagingKit,
    "receiver": ReceiverKit,
    "rate-estimator": RateEstimatorKit,
    "listener": ListenerKit,
    "block-store": BlockStoreKit,
    "live": LiveKit,
}
# A forked process gets this long after a check's time limit to report the hang itself.
_GRACE_S = 5.0


def run_checks(
    kind: Any,
    make: Callable[..., Any] | None = None,
    feeder: Callable[[], Feeder] | None = None,
    only: Iterable[str] | None = None,
    *,
    name: str = "",
    options: Mapping[str, Any] | None = None,
    capabilities: Capabilities | None = None,
    expected_failures: Mapping[str, str] | None = None,
    conf: Mapping[str, str] | None = None,
    seed: int = 0,
    live: bool = False,
    isolated: bool = False,
    on_result: Callable[[Result], object] | None = None,
) -> Report:
    """Run the conformance checks on a plugin. Needs no pytest.

    Args:
        kind: ``receiver``, ``rate-estimator``, ``listener`` or ``block-store``.
        make: makes an instance; see ``Subject``.
        feeder: makes a feeder; receivers only.
        only: ids of the checks to run; ``None`` runs all.
        name: the name under which an installed plugin offers what is tested.
        options: options for the installed plugin, by name.
        capabilities: the capabilities that the plugin declares.
        expected_failures: check id → reason.
        conf: configuration by full key; every check uses it.
        seed: seeds every random value.
        live: whether to run the checks that start Spark.
        isolated: run the checks in a forked process. A check that ends this process fails; a new process runs the
            remaining checks. After a check that hangs, they run there in any case. Call it from a program without
            other threads. ``PENSTOCK_TEST_ISOLATED=1`` sets it, too.
        on_result: called with each result as soon as the check ends.

    Raises:
        ConfigurationError: the kind is unknown, or both ``make`` and ``name`` are missing.
        UnknownNameError: an id in ``only`` is unknown; the message names the nearest.
    """
    subject = Subject(
        kind=kind,
        make=make,
        feeder=feeder,
        name=name,
        options=options or {},
        capabilities=capabilities or Capabilities(),
        expected_failures=expected_failures or {},
        conf=conf or {},
        seed=seed,
        live=live,
    )
    return run_subject(subject, only, isolated=isolated, on_result=on_result)


def run_subject(
    subject: Subject,
    only: Iterable[str] | None = None,
    *,
    isolated: bool = False,
    on_result: Callable[[Result], object] | None = None,
) -> Report:
    """Run the checks on a subject; see ``run_checks``."""
    checks = checks_for(subject.kind, only)
    results = list[Result]()
    for result in _run(subject, checks, isolated=isolated):
        results.append(result)
        if on_result is not None:
            on_result(result)
    pinned = len(checks_for(subject.kind)) if only is None else None
    return Report(subject.kind, subject.title, subject.seed, pinned, tuple(results))


def _run(subject: Subject, checks: Iterable[Check], *, isolated: bool) -> Iterator[Result]:
    """Run checks in this process until one hangs, and the others in a process of their own, which lacks its thread."""
    remaining = list(checks)
    while remaining and not is_isolated(isolated):
        yield run_check(subject, remaining.pop(0))
    yield from run_isolated(subject, remaining)


def is_isolated(asked: bool) -> bool:
    """Whether checks run in a process of their own.

    They do if that was asked for, if ``PENSTOCK_TEST_ISOLATED=1`` is set, and while an earlier check hangs in this
    process: it could use the processor, print, or change what the next check looks at.
    """
    return asked or os.environ.get("PENSTOCK_TEST_ISOLATED") == "1" or any(map(_is_running, all_checks().values()))


def run_check(subject: Subject, check: Check) -> Result:
    """Run one check in this process, on a thread of its own. An error of the plugin is a failed result."""
    if check.requires and not getattr(subject.capabilities, check.requires):
        return Result.of(check, "not applicable", seen=f"Capabilities.{check.requires} is not set")
    if check.kind == "live" and not subject.live:
        return Result.of(check, "not applicable", seen="live checks are off: set live=True, or pass --live")
    _prepare(subject, check.kind)
    began = time.monotonic()
    error = _error_of(subject, check)
    seconds = round(time.monotonic() - began, 3)
    reason = subject.expected_failures.get(check.id)
    if isinstance(error, NotApplicable):
        return Result.of(check, "not applicable", seconds, str(error))
    if error is None and reason is None:
        return Result.of(check, "passed", seconds)
    if error is None:
        error = CheckFailure(
            f"the check passes, although expected_failures lists it: {reason}",
            change=f"remove {check.id} from expected_failures",
        )
    elif reason is not None:
        return Result.of(check, "excused", seconds, reason)
    if not isinstance(error, CheckFailure):
        error = CheckFailure(_unexpected(error))
    failed = Result.of(check, "failed", seconds, error.seen, error.smallest)
    return attrs.evolve(failed, change=error.change or check.change, excuse=_excuse(check))


def _prepare(subject: Subject, kind: str) -> None:
    # What cannot be prepared fails in the check.
    with suppress(Exception):
        _KITS[kind].prepare(subject)


def _excuse(check: Check) -> str:
    expected = f'expected_failures = {{"{check.id}": "the reason"}}'
    return (
        f"Capabilities({check.requires}=False), if the plugin does not claim it; else {expected}"
        if check.requires
        else expected
    )


def _unexpected(error: BaseException) -> str:
    lines = traceback.format_exception(error)
    return f"{type(error).__name__}: {error}\n{''.join(lines[-3:]).rstrip()}"


def _error_of(subject: Subject, check: Check) -> BaseException | None:
    """Run a check on a daemon thread, so that a hang ends this check only; restore the process's global state."""
    outcome: list[BaseException | None] = []
    exits: list[CheckFailure] = []
    state, limit_s = GlobalState(), check.limit_s * scale()
    with tempfile.TemporaryDirectory(prefix="penstock-check-", ignore_cleanup_errors=True) as folder:
        temporary, work = Path(folder) / "tmp", Path(folder) / "work"
        temporary.mkdir()
        work.mkdir()

        def body() -> None:
            kit = _KITS[check.kind](subject, check, work, printed)
            # The first error counts: an error of closing is often its consequence. A plugin may raise anything,
            # SystemExit included.
            for step, arguments in ((check.function, [kit]), (kit.close, [])):
                try:
                    step(*arguments)
                except BaseException as error:
                    outcome.append(error)
            outcome.append(None)

        thread = threading.Thread(target=body, name=_thread_name(check), daemon=True)
        with Printed() as printed, _temporary_files_in(temporary), _no_exit(exits):
            thread.start()
            thread.join(limit_s)
            # Read before the global state is restored: a check that hangs may end meanwhile.
            where = _stack(thread)
        state.restore()
    if exits:
        return exits[0]
    if not outcome:
        return CheckFailure(f"the check did not end within its time limit of {limit_s:g} s; its stack:\n{where}")
    return outcome[0]


def _thread_name(check: Check) -> str:
    return f"penstock kit {check.id}"


def _is_running(check: Check) -> bool:
    """Whether a check that had to end still hangs in this process."""
    return any(each.name == _thread_name(check) for each in threading.enumerate())


@contextmanager
def _temporary_files_in(folder: Path) -> Iterator[None]:
    """Put temporary files into a folder."""
    was, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = was


@contextmanager
def _no_exit(exits: list[CheckFailure]) -> Iterator[None]:
    """Make ``os._exit`` end the calling thread instead of the process, and note the call."""
    exit_process, process = os._exit, os.getpid()

    def refuse(status: int) -> NoReturn:
        if os.getpid() != process:
            exit_process(status)  # a process that the plugin forked, such as one of multiprocessing
        exits.append(CheckFailure(f"the plugin called os._exit({status})", change="raise an exception instead"))
        raise SystemExit(status)

    os._exit = refuse
    try:
        yield
    finally:
        os._exit = exit_process


def _stack(thread: threading.Thread) -> str:
    frame = sys._current_frames().get(thread.ident or 0)
    return "".join(traceback.format_stack(frame)[-4:]).rstrip() if frame else "(ended meanwhile)"


# -- a process of its own --


def run_isolated(subject: Subject, checks: Iterable[Check]) -> Iterator[Result]:
    """Run checks in a forked process; after the plugin ended it, or a check hung, in a new one."""
    remaining = list(checks)
    for kind in {check.kind for check in remaining}:
        _prepare(subject, kind)
    while remaining:
        process = _Worker(subject, tuple(remaining))
        try:
            for result in process.results():
                remaining.pop(0)
                yield result
        finally:
            ended = process.end()
        if ended and remaining:
            check = remaining.pop(0)
            yield attrs.evolve(
                Result.of(check, "failed", seen=f"the process of the check {ended}"),
                change="do not end or crash the process: raise an exception, or call Receiver.stop",
                excuse=_excuse(check),
            )


class _Worker:
    """A forked process that runs checks and sends their results through a pipe, one line of JSON each.

    It ends after a check that hangs: what hangs may use the processor for as long as the process lives. It says so
    by an empty line.
    """

    def __init__(self, subject: Subject, checks: tuple[Check, ...]) -> None:
        self._checks, self._killed, self._hands_over = checks, False, False
        self._reader, writer = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            # Python 3.12 warns of a fork beside other threads; those of libraries such as Arrow are idle here.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._pid = os.fork()
        if self._pid == 0:
            status = 1
            try:
                os.close(self._reader)
                # The plugin prints to standard error: standard output is for the report.
                os.dup2(2, 1)
                for check in checks:
                    line = json.dumps(attrs.asdict(run_check(subject, check))) + "\n"
                    os.write(writer, line.encode())
                    if _is_running(check):
                        os.write(writer, b"\n")
                        break
                status = 0
            finally:
                os._exit(status)
        os.close(writer)

    def results(self) -> Iterator[Result]:
        """The results until the last, or until the process ends or hangs; a process that hangs is killed."""
        buffer = b""
        for check in self._checks:
            deadline = time.monotonic() + check.limit_s * scale() + _GRACE_S
            while b"\n" not in buffer:
                ready, _, _ = select.select([self._reader], [], [], max(0.0, deadline - time.monotonic()))
                if not ready:
                    self._killed = True
                    os.kill(self._pid, signal.SIGKILL)
                    return
                data = os.read(self._reader, 65536)
                if not data:
                    return
                buffer += data
            line, _, buffer = buffer.partition(b"\n")
            if not line:
                self._hands_over = True
                return
            yield Result(**json.loads(line))

    def end(self) -> str:
        """Wait for the end of the process; return how the plugin ended it, empty if it did not."""
        os.close(self._reader)
        _, status = os.waitpid(self._pid, 0)
        if self._hands_over:
            return ""
        if self._killed:
            return "did not end within its time limit and was killed"
        if os.WIFSIGNALED(status):
            return f"was killed by {signal.Signals(os.WTERMSIG(status)).name}"
        return f"ended with exit status {os.WEXITSTATUS(status)}"
