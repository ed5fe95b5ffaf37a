"""Confirms each line of a server by "OK <number>" once it is stored: on_stored and on_drained with a ThreadReceiver.

Needs: a server that sends lines "<number> <text>" and sends again what is not confirmed
Run: penstock run examples/receivers/acknowledged.py HOST PORT
"""

import socket
import sys
import threading

from pyspark import SparkContext

from penstock import StreamingContext, ThreadReceiver


class Acknowledged(ThreadReceiver):
    def __init__(self, host, port):
        self.host = host
        self.port = port

    def receive(self):
        self.socket, lock = socket.create_connection((self.host, self.port), timeout=10), threading.Lock()
        self.socket.settimeout(None)
        for line in self.socket.makefile():
            number, _, text = line.strip().partition(" ")

            def on_stored(error, number=number):
                if error is None:  # otherwise the server sends the line again
                    with lock:
                        self.socket.sendall(f"OK {number}\n".encode())

            self.store(text, on_stored)
        if not self.isStopped():
            raise ConnectionError("the server closed the connection")

    def onStop(self):  # wake the read, and keep the other direction for the last acknowledgements
        if hasattr(self, "socket"):
            self.socket.shutdown(socket.SHUT_RD)
        super().onStop()

    def on_drained(self):
        if hasattr(self, "socket"):
            self.socket.close()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    ssc = StreamingContext(SparkContext(appName="acknowledged lines"), batchDuration=1)
    ssc.receiverStream(Acknowledged(sys.argv[1], int(sys.argv[2]))).pprint()
    ssc.run()
