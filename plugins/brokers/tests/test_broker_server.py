"""``BrokerServer``: starts, fails, is suspended and restarted, and leaves neither process nor file behind."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from plugins.brokers.tests.python_broker import PythonBroker
from tests.helpers import wait_for

from penstock_brokers import BrokerServerError, broker_server


class Failing(PythonBroker):
    program = "print('no licence'); raise SystemExit(3)"


class Silent(PythonBroker):
    start_timeout_s = 0.05
    program = "import time; time.sleep(1000)"


@pytest.fixture
def server() -> Iterator[PythonBroker]:
    with PythonBroker() as server:
        yield server


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_it_answers_after_start_and_nothing_remains_after_close(server: PythonBroker) -> None:
    assert server.ask() == str(server.pid)
    pid, folder = server.pid, server.folder
    (run,) = server.runs
    child = int((server.data / run).read_text())
    assert is_alive(child)
    server.close()
    server.close()
    wait_for(lambda: not is_alive(pid) and not is_alive(child), "the processes end")
    assert not folder.exists()
    with pytest.raises(BrokerServerError, match="Broker does not run"):
        _ = server.pid


def test_data_outlive_a_crash_and_the_port_stays(server: PythonBroker) -> None:
    port, first = server.port, server.pid
    server.kill()
    assert not is_alive(first)
    with pytest.raises(OSError, match="refused"):
        server.ask()
    server.start()
    server.start()
    assert (server.port, len(server.runs)) == (port, 2)
    server.restart()
    assert len(server.runs) == 3
    server.restart(keep_data=False)
    assert server.runs == [f"run-{server.pid}"]


def test_suspended_broker_keeps_connections_and_answers_later(server: PythonBroker) -> None:
    server.suspend()
    with socket.create_connection(("127.0.0.1", server.port), 5) as connection:
        connection.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.recv(100)
        server.resume()
        connection.settimeout(20)
        assert connection.recv(100).decode() == str(server.pid)


def test_suspended_broker_can_be_closed(server: PythonBroker) -> None:
    pid = server.pid
    server.suspend()
    server.close()
    assert not is_alive(pid)


def test_broker_that_ends_is_an_error_with_its_last_lines() -> None:
    server = Failing()
    with pytest.raises(BrokerServerError, match=r"Broker ended: no licence\nno licence"), server:
        pass
    server.close()


def test_broker_that_does_not_answer_is_an_error_and_is_killed() -> None:
    server = Silent()
    with pytest.raises(BrokerServerError, match=r"did not answer within 0.05 s: it has printed nothing"):
        server.start()
    server.close()
    assert not server.folder.exists()


def test_port_that_was_taken_meanwhile_is_replaced_at_the_first_start(monkeypatch: pytest.MonkeyPatch) -> None:
    server = PythonBroker()
    with socket.create_server(("127.0.0.1", server.port)), server:
        assert server.ask() == str(server.pid)
        taken = server.port
        server.stop()
        with socket.create_server(("127.0.0.1", taken)), pytest.raises(BrokerServerError, match="in use"):
            server.start()
        assert server.port == taken


def test_program_that_forgets_its_server_leaves_nothing_behind(tmp_path: Path) -> None:
    program = tmp_path / "forgets.py"
    program.write_text(
        textwrap.dedent("""
        import os, sys
        from plugins.brokers.tests.python_broker import PythonBroker
        server = PythonBroker()
        server.start()
        if os.fork() == 0:
            sys.exit()
        os.wait()
        # The child's end has not ended it.
        server.ask()
        print(server.pid, server.folder)
        """)
    )
    root = Path(broker_server.__file__).parents[4]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    ran = subprocess.run([sys.executable, program], capture_output=True, text=True, env=environment, check=True)
    pid, folder = ran.stdout.split()
    assert not is_alive(int(pid))
    assert not Path(folder).exists()


def test_a_terminated_run_of_tests_leaves_no_server(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    test = tmp_path / "test_waits.py"
    test.write_text(
        textwrap.dedent("""
            import threading
            from pathlib import Path

            from plugins.brokers.tests.python_broker import PythonBroker


            def test_waits():
                with PythonBroker() as server:
                    Path(__file__).with_name("unfinished").write_text(f"{server.pid} {server.folder}")
                    Path(__file__).with_name("unfinished").rename(Path(__file__).with_name("server"))
                    threading.Event().wait()
        """)
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "conftest", str(test)]
    run = subprocess.Popen(command, cwd=root, stdout=subprocess.DEVNULL)
    try:
        wait_for((tmp_path / "server").exists, "the server")
        pid, folder = (tmp_path / "server").read_text().split()
        assert is_alive(int(pid))
        run.terminate()
        assert run.wait(60) == pytest.ExitCode.INTERRUPTED
        assert (is_alive(int(pid)), Path(folder).exists()) == (False, False)
    finally:
        run.kill()
