"""``Lister`` lists on its own thread and waits no longer than its timeout."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from penstock_file.lister import Lister

DEADLINE_S = 20.0


@pytest.fixture
def make() -> Iterator[Callable[..., Lister]]:
    listers: list[Lister] = []

    def make(look: Callable[[], None]) -> Lister:
        listers.append(Lister("test", look))
        listers[-1].start()
        return listers[-1]

    yield make
    for lister in listers:
        lister.stop()


def test_look_begins_after_it_was_asked_for(make: Callable[..., Lister]) -> None:
    there, seen = [0], []
    lister = make(lambda: seen.append(there[0]))
    for number in range(100):
        there[0] = number
        assert lister.ask(DEADLINE_S)
        assert seen[-1] == number
    assert len(seen) == 100


def test_slow_look_holds_nobody_and_is_not_lost(make: Callable[..., Lister]) -> None:
    go_on, looks = threading.Event(), []

    def look() -> None:
        looks.append(0)
        go_on.wait(DEADLINE_S)

    lister = make(look)
    assert not lister.ask(0.01)
    assert not lister.ask(0.01)
    assert not lister.ask(0.0)
    go_on.set()
    assert lister.ask(DEADLINE_S)
    # What was asked for while the first one took its time was one look.
    assert len(looks) in (2, 3)


def test_error_goes_to_who_asked(make: Callable[..., Lister]) -> None:
    errors: list[Exception | None] = [ValueError("x"), None]

    def look() -> None:
        if (error := errors.pop(0)) is not None:
            raise error

    lister = make(look)
    with pytest.raises(ValueError, match="x"):
        lister.ask(DEADLINE_S)
    assert lister.ask(DEADLINE_S)


def test_stop_wakes_all_waiters(make: Callable[..., Lister]) -> None:
    lister: Lister

    def look() -> None:
        lister.stopped.wait(DEADLINE_S)

    lister = make(look)
    waiter = threading.Thread(target=lambda: lister.ask(DEADLINE_S))
    waiter.start()
    began_s = time.monotonic()
    lister.stop()
    waiter.join(DEADLINE_S)
    assert not waiter.is_alive()
    assert time.monotonic() - began_s < 15
    assert not lister.ask(DEADLINE_S)


def test_stopping_what_never_started_or_twice() -> None:
    lister = Lister("test", lambda: None)
    lister.stop()
    lister.start()
    lister.stop()
    lister.stop()
