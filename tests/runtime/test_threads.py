"""``EngineThread``: a thread that its own code must not wait for."""

import threading

from penstock.runtime.threads import EngineThread, on_engine_thread


def test_it_is_a_daemon_with_its_name() -> None:
    thread = EngineThread("a name", lambda: None)
    assert (thread.name, thread.daemon) == ("a name", True)


def test_code_can_tell_that_it_runs_on_one() -> None:
    seen: list[bool] = []
    thread = EngineThread("engine", lambda: seen.append(on_engine_thread()))
    thread.start()
    assert thread.finish(10)
    other = threading.Thread(target=lambda: seen.append(on_engine_thread()))
    other.start()
    other.join(10)
    assert seen == [True, False]
    assert not on_engine_thread()


def test_finish_says_whether_the_thread_has_ended() -> None:
    gate = threading.Event()
    thread = EngineThread("engine", lambda: gate.wait(10))
    thread.start()
    assert not thread.finish(0.01)
    gate.set()
    assert thread.finish(10)
    assert thread.finish()


def test_a_thread_that_never_started_has_not_ended() -> None:
    assert not EngineThread("engine", lambda: None).finish()


def test_a_thread_does_not_wait_for_itself() -> None:
    said: list[bool] = []
    thread: EngineThread = EngineThread("engine", lambda: said.append(thread.finish()))
    thread.start()
    assert thread.finish(10)
    assert said == [False]
