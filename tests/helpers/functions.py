"""Small functions that tests pass as callbacks, and one that runs a call on a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, NoReturn, TypeVar

if TYPE_CHECKING:
    from penstock import StreamingContext
    from penstock.engine import Engine
    from penstock.graph.dstream_graph import DStreamGraph

R = TypeVar("R")


def do_nothing(*_arguments: object, **_options: object) -> None:
    """Return None for any arguments."""


def raiser(error: BaseException) -> Callable[..., NoReturn]:
    """A function of any arguments that raises ``error``."""

    def fail(*_arguments: object, **_options: object) -> NoReturn:
        raise error

    return fail


def run_in_background(function: Callable[[], R]) -> Future[R]:
    """Call ``function`` on a daemon thread of its own. The future carries its result or its error."""
    future: Future[R] = Future()

    def work() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


def engine_of(ssc: StreamingContext) -> Engine:
    """The engine of a context that was started."""
    # The engine of a program is no public name: a program has no use for it.
    assert ssc._engine is not None
    return ssc._engine


def graph_of(ssc: StreamingContext) -> DStreamGraph:
    """The graph of a context, as a factory of input streams gets it."""
    # No public name: a program has no use for it.
    return ssc._graph
