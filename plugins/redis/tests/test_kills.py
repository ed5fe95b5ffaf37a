"""kill -9 of the receiver's process and of the server: what is acknowledged is stored, and nothing is stored twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from plugins.brokers.tests.storing_process import stored, storing
from tests.helpers import wait_for

from penstock_redis.stored_ranges import number_of

if TYPE_CHECKING:
    from plugins.redis.tests.conftest import Stream

_COUNT = 1000


def test_kills_lose_nothing_that_was_acknowledged(own_stream: Stream, tmp_path: Path) -> None:
    options = {
        "host": "127.0.0.1",
        "port": own_stream.server.port,
        "streams": own_stream.name,
        "consumer": "one",
        "columns": "value",
        "fetch_size": 20,
    }
    records = [str(number) for number in range(_COUNT)]
    with own_stream.client.pipeline(transaction=False) as pipeline:
        for record in records:
            pipeline.xadd(own_stream.name, {"value": record})
        ids = dict(zip(pipeline.execute(), records, strict=True))
    with storing("redis", options, tmp_path) as process:
        wait_for(lambda: len(stored(tmp_path)) > 100, "some records")
        process.kill()
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
    with storing("redis", options, tmp_path):
        wait_for(lambda: len(set(stored(tmp_path))) == _COUNT, "all records")
        wait_for(lambda: not own_stream.pending(), "all acknowledgements")
    assert Counter(stored(tmp_path)) == Counter(records)
