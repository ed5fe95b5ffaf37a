"""The program of the live checks does not outlive the process that runs the checks."""

from __future__ import annotations

import os
import signal
import threading

from penstock_testing.live_program import end_with_standard_input


def test_program_is_killed_when_the_process_that_runs_the_checks_ends() -> None:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()  # as the kit starts the program
            os.dup2(reader, 0)
            os.close(writer)
            end_with_standard_input()
            threading.Event().wait(30)
        finally:
            os._exit(1)
    os.close(reader)
    os.close(writer)  # as the end of the process does
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
