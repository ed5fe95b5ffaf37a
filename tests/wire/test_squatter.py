"""A program that listens where an endpoint has ended: it learns no secret, and no answer of it counts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from penstock.errors import WireError
from penstock.receive.messages import UpdateRateLimit
from penstock.wire.client import Client, fetch
from penstock.wire.endpoint import Endpoint
from penstock.wire.json_codec import NOT_FOUND, Reply, StreamNotFoundError, to_json
from penstock.wire.token import Token

UPDATE = UpdateRateLimit(5.0, 1)
BATCH = pa.record_batch({"number": [1, 2]})


class _Notes(flight.ServerMiddlewareFactory):  # type: ignore[misc]  # pyarrow.flight has no types
    def __init__(self, seen: list[dict[str, list[str]]]) -> None:
        super().__init__()
        self._seen = seen

    def start_call(self, _info: Any, headers: dict[str, list[str]]) -> None:
        self._seen.append(headers)


class Squatter(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow.flight has no types
    """Answers everything as an endpoint would, and notes what it gets."""

    def __init__(self) -> None:
        self.seen: list[dict[str, list[str]]] = []
        self.code = b""
        self.is_absent = False
        super().__init__("grpc://127.0.0.1:0", middleware={"notes": _Notes(self.seen)})
        self.location = f"grpc://127.0.0.1:{self.port}"

    def do_action(self, _context: Any, _action: flight.Action) -> Iterator[flight.Result]:
        yield flight.Result(self.code + to_json(Reply()))

    def do_get(self, _context: Any, _ticket: flight.Ticket) -> flight.RecordBatchStream:
        if self.is_absent:
            raise flight.FlightServerError("no such stream", NOT_FOUND)
        return flight.GeneratorStream(BATCH.schema, iter([(BATCH, self.code)] if self.code else [BATCH]))


@pytest.fixture
def squatter() -> Iterator[Squatter]:
    squatter = Squatter()
    yield squatter
    squatter.shutdown()


@pytest.mark.parametrize("code", [b"", bytes(32)])
def test_answer_of_another_program_is_refused(squatter: Squatter, code: bytes) -> None:
    token, squatter.code = Token.generate(), code
    client = Client(squatter.location, token, 5000)
    with pytest.raises(WireError, match="another program listens there"):
        client.ask(UPDATE, Reply)
    client.close()
    with pytest.raises(WireError, match="another program listens there"):
        list(fetch(squatter.location, "numbers", token, 10))
    squatter.is_absent = True
    # Its word that a block is gone does not count either.
    with pytest.raises(WireError) as caught:
        list(fetch(squatter.location, "numbers", token, 10))
    assert not isinstance(caught.value, StreamNotFoundError)
    assert len(squatter.seen) == 3
    assert token.secret not in str(squatter.seen)


def test_what_it_learns_opens_no_other_endpoint(squatter: Squatter) -> None:
    application, handled = Token.generate(), list[object]()
    ended, running = application.derive("0/1"), application.derive("0/2")
    endpoint = Endpoint(
        "127.0.0.1", running, {UpdateRateLimit: handled.append}, lambda _ticket: (BATCH.schema, [BATCH])
    )
    client = Client(squatter.location, ended, 5000)
    with pytest.raises(WireError):
        client.ask(UPDATE, Reply)
    client.close()
    headers = [(b"authorization", squatter.seen[0]["authorization"][0].encode())]
    with flight.FlightClient(f"grpc://127.0.0.1:{endpoint.port}") as thief:
        options = flight.FlightCallOptions(headers=headers)
        with pytest.raises(flight.FlightUnauthenticatedError):
            list(thief.do_action(flight.Action("UpdateRateLimit", to_json(UPDATE)), options))
        with pytest.raises(flight.FlightUnauthenticatedError):
            thief.do_get(flight.Ticket(b"numbers"), options).read_all()
    assert handled == []
    endpoint.stop()


def test_signature_of_a_message_allows_no_other() -> None:
    token, handled = Token.generate(), list[object]()
    endpoint = Endpoint("127.0.0.1", token, {UpdateRateLimit: handled.append})
    headers = token.sign(b"UpdateRateLimit\0" + to_json(UPDATE)).headers()
    with flight.FlightClient(f"grpc://127.0.0.1:{endpoint.port}") as client:
        options = flight.FlightCallOptions(headers=headers)
        with pytest.raises(flight.FlightUnauthenticatedError, match="another content"):
            list(client.do_action(flight.Action("UpdateRateLimit", to_json(UpdateRateLimit(6.0, 1))), options))
        assert handled == []
        list(client.do_action(flight.Action("UpdateRateLimit", to_json(UPDATE)), options))
    assert handled == [UPDATE]
    endpoint.stop()


def test_readers_send_no_messages_and_callers_read_no_streams() -> None:
    application = Token.generate()
    calls, reads = application.derive("0/1"), application.derive("tasks").derive("0/1")
    handled: list[object] = []
    endpoint = Endpoint(
        "127.0.0.1", calls, {UpdateRateLimit: handled.append}, lambda _ticket: (BATCH.schema, [BATCH]), readers=reads
    )
    location = f"grpc://127.0.0.1:{endpoint.port}"
    assert list(fetch(location, "numbers", reads, 10)) == [BATCH]
    for token, asks in ((calls, True), (reads, False)):
        client = Client(location, token, 5000)
        if asks:
            assert client.ask(UPDATE, Reply) == Reply()
            with pytest.raises(WireError, match="token only"):
                list(fetch(location, "numbers", token, 10))
        else:
            with pytest.raises(WireError, match="token only"):
                client.ask(UPDATE, Reply)
        client.close()
    assert handled == [UPDATE]
    endpoint.stop()


def test_time_that_the_caller_takes_for_a_stream_does_not_count() -> None:
    token, taken = Token.generate(), threading.Event()
    endpoint = Endpoint("127.0.0.1", token, {}, lambda _ticket: (BATCH.schema, [BATCH] * 5))
    batches = 0
    for _batch in fetch(f"grpc://127.0.0.1:{endpoint.port}", "numbers", token, 0.5):
        batches += 1
        taken.wait(0.3)
    assert batches == 5
    endpoint.stop()


@pytest.mark.parametrize("first", [0, 1])
def test_a_batch_that_does_not_come_in_time_is_an_error(first: int) -> None:
    token, gate = Token.generate(), threading.Event()

    def batches() -> Iterator[pa.RecordBatch]:
        yield from [BATCH] * first
        gate.wait(30)

    endpoint = Endpoint("127.0.0.1", token, {}, lambda _ticket: (BATCH.schema, batches()))
    with pytest.raises(WireError, match=r"nothing from grpc://.* within 0.5 s"):
        list(fetch(f"grpc://127.0.0.1:{endpoint.port}", "numbers", token, 0.5))
    gate.set()
    endpoint.stop()
