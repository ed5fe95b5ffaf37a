"""Serves an HTTP webhook with the standard library: answers a POST with 200 once its body is stored.

Needs: a client, such as curl -d hello http://localhost:PORT/
Run: penstock run examples/receivers/webhook.py PORT
"""

import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from pyspark import SparkContext

from penstock import PenstockError, Receiver, StreamingContext


class Webhook(Receiver):
    def __init__(self, port, host=None):
        self.port = port
        self.host = host

    def preferredLocation(self):
        return self.host  # callers must find it: run where the load balancer sends

    def onStart(self):
        store_all = self.store_all

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                try:
                    store_all([body])  # returns when the driver has accepted it; the rate limit makes callers wait
                    self.send_response(200)
                except PenstockError:
                    self.send_response(503)  # the caller sends it again
                self.end_headers()

            def log_message(self, *_):
                pass

        try:
            self.server = ThreadingHTTPServer(("", self.port), Handler)
        except OSError as error:  # the port is in use: try again in this process
            self.restart(f"cannot listen on port {self.port}", error)
            return
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def onStop(self):
        if hasattr(self, "server"):
            self.server.shutdown()
            self.server.server_close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    ssc = StreamingContext(SparkContext(appName="webhook"), batchDuration=1)
    ssc.receiverStream(Webhook(int(sys.argv[1]))).pprint()
    ssc.run()
