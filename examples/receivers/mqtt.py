"""Receives MQTT messages by callbacks, and acknowledges each once it is stored; the broker keeps what is not.

Needs: pip install paho-mqtt, here and on every executor; a broker, such as mosquitto on its port 1883
Run: penstock run examples/receivers/mqtt.py BROKER_HOST TOPIC
"""

import sys

import paho.mqtt.client as mqtt
from pyspark import SparkConf, SparkContext

from penstock import Receiver, StreamingContext
from penstock.spi import StoreQueue


class Mqtt(Receiver):
    def __init__(self, host, topic, client_id, port=1883):
        self.host, self.port, self.topic, self.client_id = host, port, topic, client_id

    def onStart(self):
        # The broker keeps the session of a client id: what was not acknowledged comes again after a restart.
        self.client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2, self.client_id, clean_session=False, manual_ack=True
        )
        self.queue = StoreQueue(self)  # store would hold the thread that also sends keepalives
        self.client.on_connect = lambda client, *_: client.subscribe(self.topic, qos=1)
        self.client.on_message = self.on_message
        self.client.connect_async(self.host, self.port)
        self.client.loop_start()

    def on_message(self, client, _userdata, message):
        def on_stored(error):
            if error is None:
                client.ack(message.mid, message.qos)

        self.queue.put(message.payload, on_stored)

    def onStop(self):
        self.queue.stop()  # takes nothing more: what comes now stays with the broker

    def on_drained(self):  # after the last on_stored: every acknowledgement was sent
        self.client.disconnect()
        self.client.loop_stop()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    conf = SparkConf().setAppName("mqtt").set("spark.streaming.stopGracefullyOnShutdown", "true")
    ssc = StreamingContext(SparkContext(conf=conf), batchDuration=1)
    ssc.receiverStream(Mqtt(*sys.argv[1:3], client_id="counts")).count().pprint()
    ssc.start()
    ssc.awaitTermination()
