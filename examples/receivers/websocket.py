"""Receives WebSocket messages with an asyncio client: astore waits without blocking the event loop.

Needs: pip install websockets, here and on every executor; a WebSocket server
Run: penstock run examples/receivers/websocket.py ws://HOST:PORT/
"""

import sys

from pyspark import SparkContext
from websockets.asyncio.client import connect

from penstock import AsyncReceiver, StreamingContext


class WebSocket(AsyncReceiver):
    def __init__(self, uri):
        self.uri = uri

    async def receive(self):  # a stop cancels it; an error restarts it
        async with connect(self.uri) as connection:
            async for message in connection:
                await self.astore(message)
        raise ConnectionError(f"{self.uri} closed the connection")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    ssc = StreamingContext(SparkContext(appName="websocket"), batchDuration=1)
    ssc.receiverStream(WebSocket(sys.argv[1])).pprint()
    ssc.run()
