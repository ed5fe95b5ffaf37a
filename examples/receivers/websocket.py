"""WebSocket with an asynchronous client: ``astore`` waits without blocking the event loop, which answers pings.

Needs ``pip install websockets`` here and on every executor.
Run: penstock run examples/receivers/websocket.py ws://HOST:PORT/
"""

import sys

from websockets.asyncio.client import connect

from penstock import AsyncReceiver


class WebSocket(AsyncReceiver):
    def __init__(self, uri):
        self.uri = uri

    async def receive(self):  # a stop cancels it; an error restarts it
        async with connect(self.uri) as connection:
            async for message in connection:
                await self.astore(message)
        raise ConnectionError(f"{self.uri} closed the connection")


if __name__ == "__main__":
    from pyspark import SparkContext

    from penstock import StreamingContext

    with StreamingContext(SparkContext(appName="websocket"), 1) as ssc:
        ssc.receiverStream(WebSocket(sys.argv[1])).pprint()
        ssc.start()
        ssc.awaitTermination()
