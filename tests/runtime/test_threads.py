"""``EngineThread`` and ``on_engine_thread``."""

import threading

from penstock.runtime.threads import EngineThread, on_engine_thread


def test_engine_thread_is_a_named_daemon() -> None:
    thread = EngineThread("a name", lambda: None)
    assert (thread.name, thread.daemon) == ("a name", True)


def test_code_knows_whether_it_runs_on_an_engine_thread() -> None:
    seen: list[bool] = []
    thread = EngineThread("engine", lambda: seen.append(on_engine_thread()))
    thread.start()
    assert thread.finish(10)
    other = threading.Thread(target=lambda: seen.append(on_engine_thread()))
    other.start()
    other.join(10)
    assert seen == [True, False]
    assert not on_engine_thread()


def test_finish_returns_whether_the_thread_has_ended() -> None:
    gate = threading.Event()
    thread = EngineThread("engine", lambda: gate.wait(10))
    thread.start()
    assert not thread.finish(0.01)
    gate.set()
    assert thread.finish(10)
    assert thread.finish()


def test_thread_that_never_started_has_not_ended() -> None:
    assert not EngineThread("engine", lambda: None).finish()


def test_thread_does_not_wait_for_itself() -> None:
    ended: list[bool] = []
    thread: EngineThread = EngineThread("engine", lambda: ended.append(thread.finish()))
    thread.start()
    assert thread.finish(10)
    assert ended == [False]
