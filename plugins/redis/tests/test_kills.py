"""kill -9 of the receiver's process and of the server: what is acknowledged is stored, and nothing is stored twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.helpers.waiting import wait_for

from penstock_redis.stored_ranges import number_of

if TYPE_CHECKING:
    from plugins.redis.tests.conftest import Stream

_COUNT = 1000


@contextmanager
def stored_by_a_process(stream: Stream, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    program = Path(__file__).with_name("storing_process.py")
    process = subprocess.Popen([sys.executable, program, str(stream.server.port), stream.name, str(folder)])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def stored(folder: Path) -> list[str]:
    path = folder / "blocks"
    text = path.read_text() if path.exists() else ""
    # The process may have been killed in the last line.
    return [record for line in text[: text.rfind("\n") + 1].splitlines() for record in json.loads(line)["records"]]


def test_kills_lose_nothing_that_was_acknowledged(own_stream: Stream, tmp_path: Path) -> None:
    records = [str(number) for number in range(_COUNT)]
    with own_stream.client.pipeline(transaction=False) as pipeline:
        for record in records:
            pipeline.xadd(own_stream.name, {"value": record})
        ids = dict(zip(pipeline.execute(), records, strict=True))
    with stored_by_a_process(own_stream, tmp_path) as process:
        wait_for(lambda: len(stored(tmp_path)) > 100, "some records")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    own_stream.server.kill()
    own_stream.server.start()
    (group,) = own_stream.client.xinfo_groups(own_stream.name)
    pending = own_stream.pending()
    last = number_of(group["last-delivered-id"])
    acknowledged = {record for entry_id, record in ids.items() if number_of(entry_id) <= last} - {
        ids[entry_id] for entry_id in pending
    }
    assert acknowledged <= set(stored(tmp_path))
    with stored_by_a_process(own_stream, tmp_path):
        wait_for(lambda: len(set(stored(tmp_path))) == _COUNT, "all records")
        wait_for(lambda: not own_stream.pending(), "all acknowledgements")
    assert Counter(stored(tmp_path)) == Counter(records)
