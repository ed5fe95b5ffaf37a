"""Receives MQTT messages by callbacks, and acknowledges each once it is stored; the broker keeps what is not.

Needs: pip install paho-mqtt, here and on every executor; a broker, such as mosquitto on its port 1883
Run: penstock run examples/receivers/mqtt.py BROKER_HOST TOPIC
"""

import contextlib
import queue
import sys

import paho.mqtt.client as mqtt
from pyspark import SparkContext

from penstock import StreamingContext, ThreadReceiver


class Mqtt(ThreadReceiver):
    def __init__(self, host, topic, client_id, port=1883):
        self.host = host
        self.port = port
        self.topic = topic
        self.client_id = client_id

    def receive(self):
        # The broker keeps the session of a client id: what was not acknowledged comes again after a restart.
        self.client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2, self.client_id, clean_session=False, manual_ack=True
        )
        # store would hold the thread that also sends keepalives; put holds it only while the queue is full.
        waiting = queue.Queue(10_000)

        def on_message(_client, _userdata, message):
            while not self.isStopped():
                with contextlib.suppress(queue.Full):
                    waiting.put(message, timeout=0.1)
                    return

        self.client.on_connect = lambda client, *_: client.subscribe(self.topic, qos=1)
        self.client.on_message = on_message
        self.client.connect_async(self.host, self.port)
        self.client.loop_start()
        while not self.isStopped():  # what is queued then stays with the broker
            with contextlib.suppress(queue.Empty):
                self.store_message(waiting.get(timeout=0.1))

    def store_message(self, message):
        def on_stored(error):
            if error is None:
                self.client.ack(message.mid, message.qos)

        self.store(message.payload, on_stored)

    def on_drained(self):  # after the last on_stored: every acknowledgement was sent
        self.client.disconnect()
        self.client.loop_stop()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    ssc = StreamingContext(SparkContext(appName="mqtt"), batchDuration=1)
    ssc.receiverStream(Mqtt(*sys.argv[1:3], client_id="counts")).count().pprint()
    ssc.run()
