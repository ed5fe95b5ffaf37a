"""Runs Python programs in forks of one process that has imported what they need: an import costs up to a second each.

A fork has run nothing but these imports, and its folder, environment and search path are those that Python would have
given it. A test of imports, or of Python's own start, needs a process of its own. Garbage collections do not visit the
imported modules: that takes 50 ms each, and pytest collects twice a run.
"""

from __future__ import annotations

import atexit
import gc
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(
    ["_hypothesis_pytestplugin", "penstock_cli.command", "penstock.context", "penstock_testing.suites", "pytest"]
)


def process_pool(workers: int) -> ProcessPoolExecutor:
    """Processes that run functions: for tests that wait more than they compute."""
    return ProcessPoolExecutor(workers, mp_context=_forks, initializer=gc.freeze)


class Fork:
    """A program that runs, with the methods of ``subprocess.Popen`` that tests need. Its output is not buffered.

    Args:
        program: a file to run as ``python FILE`` does, or the name of a module to run as ``python -m NAME`` does.
        arguments: its arguments.
        cwd: its working directory.
        env: its environment; by default that of this process.
        stdout: file for its standard output, which is appended to it.
        stderr: file for its standard error; by default the same.
    """

    def __init__(
        self,
        program: Path | str,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        stdout: Path,
        stderr: Path | None = None,
    ) -> None:
        environment = dict(os.environ if env is None else env)
        here = [each for each in sys.path if each and Path(each) != _ROOT]
        first = str(program.parent if isinstance(program, Path) else cwd)
        path = [first, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep)), *here]
        outputs = (str(stdout), str(stderr or stdout))
        for output in outputs:
            Path(output).touch()
        start = (program, arguments, str(cwd), environment, path, outputs)
        self._process = _forks.Process(target=_run, args=start, daemon=True)
        self._process.start()
        self._program = str(program)
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    def poll(self) -> int | None:
        """The exit code; ``None`` while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; returns the exit code."""
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired(self._program, timeout or 0.0)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it."""
        self._process.kill()


def run_module(
    module: str, *arguments: str, cwd: Path, env: Mapping[str, str] | None = None, timeout_s: float = 240
) -> subprocess.CompletedProcess[str]:
    """Run a module as ``python -m`` does; returns its exit code, and both outputs as one."""
    if module == "pytest":
        # Its plugins are imported: assertions in them are not rewritten.
        arguments = ("-W", "ignore::pytest.PytestAssertRewriteWarning", *arguments)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "output")
        fork = Fork(module, arguments, cwd=cwd, env=env, stdout=output)
        try:
            return subprocess.CompletedProcess([module, *arguments], fork.wait(timeout_s), output.read_text())
        except subprocess.TimeoutExpired:
            print(output.read_text())
            raise
        finally:
            fork.kill()


def _run(
    program: Path | str,
    arguments: Sequence[str],
    cwd: str,
    environment: Mapping[str, str],
    path: list[str],
    outputs: Sequence[str],
) -> None:
    gc.freeze()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:] = path
    sys.argv[:] = [str(program), *arguments]
    for descriptor, name in enumerate(outputs, 1):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND), descriptor)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through=True)  # type: ignore[union-attr]
    try:
        if isinstance(program, Path):
            runpy.run_path(str(program), run_name="__main__")
        else:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
    finally:
        # A process of multiprocessing does not run them.
        atexit._run_exitfuncs()
