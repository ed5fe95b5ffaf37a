"""The simulated network: endpoints and connections that carry the real, signed messages between processes.

A call may be delayed, find no endpoint, or lose its request or its answer; clients then repeat it, as they would.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight
from attrs import define

from penstock_testing.simulation.scheduler import Scheduler, SimulatedProcess, Task

_DELAY_S = 0.003


@define
class Port:
    """An endpoint that listens."""

    process: SimulatedProcess
    endpoint: Any
    check: Any
    calls: int = 0


class SimulatedNetwork:
    """The ports of all processes.

    Attributes:
        request_loss: the probability that a request is lost.
        answer_loss: the probability that an answer is lost, after the request was handled.
        delay_s: the longest time of a request, and of an answer.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.ports: dict[int, Port] = {}
        self._last_port = 40_000
        self.heal()

    def heal(self) -> None:
        """Lose nothing any more."""
        self.request_loss = 0.0
        self.answer_loss = 0.0
        self.delay_s = _DELAY_S

    def listen(self, port: Port) -> int:
        """Open a port and return its number; it closes with the process."""
        self._last_port += 1
        number = self._last_port
        self.ports[number] = port
        port.process.on_end.append(lambda: self.ports.pop(number, None))
        return number

    def call(self, location: str, action: Any, options: FlightCallOptions) -> list[Any]:
        """Send a message and return the answer.

        Raises:
            FlightUnavailableError: nothing listens there, or the connection broke.
            FlightTimedOutError: no answer in time.
        """
        scheduler, number = self.scheduler, int(location.rpartition(":")[2])
        scheduler.check()
        deadline = scheduler.now_s + options.timeout
        scheduler.elapse(min(scheduler.random.random() * self.delay_s, options.timeout))
        port = self.ports.get(number)
        if port is None:
            raise flight.FlightUnavailableError(f"nothing listens at {location}")
        outcome: list[Any] = []
        waiters: list[Task] = []

        def serve() -> None:
            outcome.append(_answer(port, action, options.headers))
            wake()

        def wake() -> None:
            for task in list(waiters):
                scheduler.wake(task)

        port.process.on_end.append(wake)
        if not self._loses(self.request_loss):
            port.process.spawn(f"call {action.type}", serve)
        if self._loses(self.answer_loss):
            # The caller notices at once, or not before its timeout.
            scheduler.elapse(scheduler.random.choice((0.1, deadline - scheduler.now_s)))
            raise flight.FlightUnavailableError(f"the connection to {location} broke")
        scheduler.wait(waiters, max(deadline - scheduler.now_s, 0.001))
        port.process.on_end.remove(wake)
        if not outcome and port.process.is_dead:
            raise flight.FlightUnavailableError(f"the connection to {location} broke")
        if not outcome:
            raise flight.FlightTimedOutError("Deadline Exceeded")
        scheduler.elapse(min(scheduler.random.random() * self.delay_s, max(deadline - scheduler.now_s, 0)))
        if isinstance(outcome[0], BaseException):
            raise outcome[0]
        return [SimpleNamespace(body=pa.py_buffer(outcome[0]))]

    def _loses(self, probability: float) -> bool:
        return probability > 0 and self.scheduler.random.random() < probability


def _answer(port: Port, action: Any, headers: list[tuple[bytes, bytes]]) -> Any:
    """What an endpoint answers to a call: bytes, or the error that the caller gets."""
    port.calls += 1
    try:
        named: dict[str, list[str]] = {}
        for name, value in headers:
            named.setdefault(_text(name), []).append(_text(value))
        call = port.check.start_call(SimpleNamespace(method=flight.FlightMethod.DO_ACTION), named)
        context = SimpleNamespace(get_middleware=lambda _name: call, peer=lambda: "ipv4:127.0.0.1:1")
        (result,) = port.endpoint.do_action(context, action)
        return result.body.to_pybytes()
    except (flight.FlightError, pa.ArrowException) as error:
        return error
    except Exception as error:
        return flight.FlightServerError(f"{type(error).__name__}: {error}")
    finally:
        port.calls -= 1


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


class FlightCallOptions:
    """As that of Flight, with readable attributes."""

    def __init__(self, timeout: float = 30.0, headers: Any = ()) -> None:
        self.timeout = timeout
        self.headers = list(headers)


def flight_module(network: SimulatedNetwork) -> Any:
    """A twin of ``pyarrow.flight`` for clients."""

    class FlightClient:
        def __init__(self, location: str, **_arguments: object) -> None:
            self._location = location

        def do_action(self, action: Any, options: FlightCallOptions) -> list[Any]:
            return network.call(self._location, action, options)

    names = {name: getattr(flight, name) for name in dir(flight) if not name.startswith("_")}
    return SimpleNamespace(**{**names, "FlightClient": FlightClient, "FlightCallOptions": FlightCallOptions})


def endpoint_class(network: SimulatedNetwork, real: Any, token_check: Any) -> Any:
    """A twin of the engine's ``Endpoint`` that listens on the network; the real one checks and handles the calls."""
    scheduler = network.scheduler

    class SimulatedEndpoint(real):  # type: ignore[misc]
        def __init__(
            self,
            host: str,
            token: Any,
            handlers: Any,
            open_stream: Any = None,
            ports: Any = None,
            *,
            permits: Any = lambda _caller, _message: True,
            readers: Any = None,
        ) -> None:
            self._permits = permits
            self._handlers = {kind.__name__: (kind, handler) for kind, handler in handlers.items()}
            self._open_stream = open_stream
            self._decoding = _NoLock()
            self._refused_messages = 0
            self._guard = SimpleNamespace(note_caller=lambda _peer: None)
            task = scheduler.check()
            assert task is not None
            self._port = Port(task.process, self, token_check(token, readers or token))
            self._number = network.listen(self._port)

        @property
        def port(self) -> int:
            return self._number

        def stop(self, timeout_s: float = 10.0) -> None:
            network.ports.pop(self._number, None)
            deadline = scheduler.now_s + timeout_s
            while self._port.calls and scheduler.now_s < deadline:
                scheduler.elapse(0.01)

    return SimulatedEndpoint


class _NoLock:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_error: object) -> None:
        pass
