"""Reads NATS JetStream with an asyncio client, at the pace of the rate limit, and acknowledges what is stored.

Needs: pip install nats-py, here and on every executor; nats-server -js with a stream; penstock-nats does more
Run: penstock run examples/receivers/jetstream.py nats://HOST:PORT STREAM
"""

import asyncio
import contextlib
import sys

import nats
from pyspark import SparkContext

from penstock import AsyncReceiver, SourceStatus, StreamingContext

LEASE_S = 30  # the server delivers again what is not acknowledged in this time


class JetStream(AsyncReceiver):
    def __init__(self, url, stream):
        self.url = url
        self.stream = stream

    async def receive(self):
        async with await nats.connect(self.url, allow_reconnect=False) as client:
            config = nats.js.api.ConsumerConfig(ack_wait=LEASE_S)
            messages = await client.jetstream().pull_subscribe(">", "example", stream=self.stream, config=config)
            while not self.isStopped():
                with contextlib.suppress(asyncio.TimeoutError):
                    await self.take(await messages.fetch(self.fetch_hint(500), timeout=0.5))
                info = await messages.consumer_info()
                self.report_source(SourceStatus(lag_messages=info.num_pending))

    async def take(self, batch):
        extending = asyncio.create_task(self.extend(batch))  # a store may wait for the rate limit
        try:
            await self.astore_all([message.data.decode() for message in batch])
        finally:
            extending.cancel()
        for message in batch:
            await message.ack()

    async def extend(self, batch):
        while True:
            await asyncio.sleep(LEASE_S / 3)
            for message in batch:
                await message.in_progress()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    ssc = StreamingContext(SparkContext(appName="jetstream"), batchDuration=1)
    ssc.receiverStream(JetStream(*sys.argv[1:])).pprint()
    ssc.run()
