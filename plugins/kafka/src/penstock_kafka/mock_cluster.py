"""``MockCluster``: librdkafka's mock cluster, which comes with confluent-kafka. It speaks the Kafka protocol.

``python -m penstock_kafka.mock_cluster FILE`` runs one as a process of its own and writes its address into the file.
Its records are in memory, at most about 5 MB per partition: the oldest go first.
"""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import confluent_kafka
from confluent_kafka import KafkaException

from penstock.spi import atomic_write

# ``RD_KAFKA_PRODUCER`` of rdkafka.h; the handle only hosts the cluster.
_PRODUCER = 0
_ERROR_BYTES = 512
# A group waits this long for more members before it begins; the library's default is 3 s.
_REBALANCE_DELAY_MS = 50
#: Signals to the program.
DOWN, UP = signal.SIGUSR1, signal.SIGUSR2


class MockCluster:
    """A cluster inside this process. Topics create themselves, with four partitions. Thread-safe.

    Args:
        brokers: number of brokers.

    Raises:
        KafkaException: it cannot listen.
    """

    def __init__(self, brokers: int = 1) -> None:
        self._library = _library()
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        conf = self._library.rd_kafka_conf_new()
        # Otherwise it warns that it has no servers to connect to.
        self._library.rd_kafka_conf_set(conf, b"log_level", b"0", error, _ERROR_BYTES)
        self._handle = self._library.rd_kafka_new(_PRODUCER, conf, error, _ERROR_BYTES)
        if not self._handle:
            raise KafkaException(error.value.decode())
        self._cluster = self._library.rd_kafka_mock_cluster_new(self._handle, brokers)
        if not self._cluster:
            raise KafkaException("the mock cluster cannot listen on the loopback interface")
        self._library.rd_kafka_mock_group_initial_rebalance_delay_ms(self._cluster, _REBALANCE_DELAY_MS)
        #: Addresses for clients: ``host:port``, separated by commas.
        self.bootstrap_servers: str = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the cluster and delete its records. Idempotent."""
        if self._cluster:
            self._library.rd_kafka_mock_cluster_destroy(self._cluster)
            self._library.rd_kafka_destroy(self._handle)
            self._cluster = self._handle = None

    def create_topic(self, topic: str, partitions: int = 1) -> None:
        """Create a topic."""
        self._check(self._library.rd_kafka_mock_topic_create(self._cluster, topic.encode(), partitions, 1))

    def delete_topic(self, topic: str) -> None:
        """Delete a topic with its records."""
        self._check(self._library.rd_kafka_mock_topic_delete(self._cluster, topic.encode()))

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Delete the records before an offset, as the retention of a topic does."""
        self._check(
            self._library.rd_kafka_mock_partition_delete_records(self._cluster, topic.encode(), partition, before)
        )

    def set_down(self, *, down: bool, broker: int = 1) -> None:
        """Let a broker refuse connections and break those that are open, or serve again."""
        name = "rd_kafka_mock_broker_set_" + ("down" if down else "up")
        self._check(getattr(self._library, name)(self._cluster, broker))

    def fail_requests(self, api: int, codes: Sequence[int]) -> None:
        """Answer the next requests of an API with these error codes of the protocol, and with no earlier ones.

        Args:
            api: its key in the protocol, such as 8 for OffsetCommit.
            codes: one per request, such as 22 for ILLEGAL_GENERATION.
        """
        self._library.rd_kafka_mock_clear_request_errors(self._cluster, api)
        array = (ctypes.c_int * len(codes))(*codes)
        self._library.rd_kafka_mock_push_request_errors_array(self._cluster, api, len(codes), array)

    def _check(self, code: int) -> None:
        if code:
            raise KafkaException(confluent_kafka.KafkaError(code))


def _library() -> ctypes.CDLL:
    """The librdkafka that confluent-kafka uses, with the types of the functions used here."""
    folder = Path(confluent_kafka.__file__).parent
    paths = [*folder.with_name("confluent_kafka.libs").glob("librdkafka*"), *folder.glob(".dylibs/librdkafka*")]
    library = ctypes.CDLL(str(paths[0]) if paths else "librdkafka.so.1")
    pointer, text, integer, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t
    functions = {
        "rd_kafka_conf_new": (pointer, []),
        "rd_kafka_conf_set": (integer, [pointer, text, text, text, size]),
        "rd_kafka_new": (pointer, [integer, pointer, text, size]),
        "rd_kafka_destroy": (None, [pointer]),
        "rd_kafka_mock_cluster_new": (pointer, [pointer, integer]),
        "rd_kafka_mock_cluster_destroy": (None, [pointer]),
        "rd_kafka_mock_cluster_bootstraps": (text, [pointer]),
        "rd_kafka_mock_group_initial_rebalance_delay_ms": (None, [pointer, ctypes.c_int32]),
        "rd_kafka_mock_topic_create": (integer, [pointer, text, integer, integer]),
        "rd_kafka_mock_topic_delete": (integer, [pointer, text]),
        "rd_kafka_mock_partition_delete_records": (integer, [pointer, text, ctypes.c_int32, ctypes.c_int64]),
        "rd_kafka_mock_broker_set_down": (integer, [pointer, ctypes.c_int32]),
        "rd_kafka_mock_broker_set_up": (integer, [pointer, ctypes.c_int32]),
        "rd_kafka_mock_clear_request_errors": (None, [pointer, ctypes.c_int16]),
        "rd_kafka_mock_push_request_errors_array": (None, [pointer, ctypes.c_int16, size, pointer]),
    }
    for name, (result, arguments) in functions.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def main(path: str) -> None:
    """Run a cluster until SIGTERM; SIGUSR1 breaks the connections and refuses new ones, until SIGUSR2."""
    signals = {signal.SIGTERM, DOWN, UP}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    with MockCluster() as cluster:
        with atomic_write(Path(path)) as partial:
            partial.write_text(cluster.bootstrap_servers)
        while (received := signal.sigwait(signals)) != signal.SIGTERM:
            cluster.set_down(down=received == DOWN)


if __name__ == "__main__":
    main(sys.argv[1])
