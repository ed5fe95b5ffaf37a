"""The process of a source: signals wait for ``stop``, threads that a receiver has left do not keep it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

PROGRAM = """
import os, signal, subprocess, sys, threading, time
from penstock_structured import source_process

source_process.prepare()
threading.Thread(target=time.sleep, args=(600,)).start()
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
child.terminate()
assert child.wait(60) == -signal.SIGTERM
if not (forked := os.fork()):
    time.sleep(600)
time.sleep(0.1)
os.kill(forked, signal.SIGTERM)
assert os.waitpid(forked, 0)[1] == signal.SIGTERM
assert not source_process.is_query_over()
print("ready", flush=True)
deadline = time.monotonic() + 60
while not source_process.is_query_over() and time.monotonic() < deadline:
    time.sleep(0.01)
print("over", flush=True)
"""


def test_a_signal_is_noted_and_the_process_ends_although_a_thread_runs() -> None:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "over\n"
        began = time.monotonic()
        assert process.wait(60) == 1
        assert time.monotonic() - began < 30
    finally:
        process.kill()
        process.stdout.close()
