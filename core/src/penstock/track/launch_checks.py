"""What is checked before receivers are launched for the first time, on the thread that starts the context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark import SparkContext, cloudpickle

from penstock.errors import ConfigurationError
from penstock.receive.receiver import Receiver
from penstock.runtime.log import get_logger
from penstock.spark import cluster

log = get_logger("launch_checks")


def check_cores(sc: SparkContext, receivers: int) -> None:
    """Refuse a master whose cores the receivers would all occupy.

    Raises:
        ConfigurationError: no core would remain for batches.
    """
    cores = cluster.fixed_cores(sc)
    if cores is not None and cores <= receivers:
        local = cluster.local_cores(sc) is not None
        instead = (
            f"Use local[{receivers + 1}] or more" if local else f"Have executors with {receivers + 1} cores in all"
        )
        raise ConfigurationError(
            f"master {sc.master} has {cores} core{'s' * (cores != 1)} and the program {receivers} "
            f"receiver{'s' * (receivers != 1)}: each receiver occupies one for as long as it runs, so no batch could "
            f"ever run. {instead}."
        )


def check_speculation(sc: SparkContext) -> None:
    """Refuse a configuration with which Spark starts second copies of receivers, which look like slow tasks.

    In a stage with a single task Spark speculates only if a threshold says from which duration on a task is slow.

    Raises:
        ConfigurationError: speculation is on, with such a threshold.
    """
    settings, threshold = sc.getConf(), "spark.speculation.task.duration.threshold"
    if str(settings.get("spark.speculation", "false")).lower() == "true" and settings.get(threshold):
        raise ConfigurationError(
            f"with {threshold}={settings.get(threshold)} Spark would run a second copy of each receiver after that "
            "time, and stop the first: unset it, or set spark.speculation=false"
        )


def check_picklable(stream_id: int, receiver: Receiver[Any]) -> None:
    """Refuse a receiver that cannot be sent to an executor.

    Raises:
        ConfigurationError: it cannot be pickled; the message names the attribute.
    """
    try:
        cloudpickle.dumps(receiver)
        return
    except Exception as error:
        first = error
    for name, value in vars(receiver).items():
        try:
            cloudpickle.dumps(value)
        except Exception as error:
            raise ConfigurationError(
                f"receiver {type(receiver).__name__} of stream {stream_id} cannot be sent to an executor: its "
                f"attribute {name!r} ({type(value).__name__}) cannot be pickled: {error}. Make it in onStart, not "
                "in __init__."
            ) from None
    raise ConfigurationError(
        f"receiver {type(receiver).__name__} of stream {stream_id} cannot be sent to an executor: {first}"
    ) from None


def report_storage_levels(sc: SparkContext, receivers: Mapping[int, Receiver[Any]]) -> None:
    """Log, once for all receivers, that blocks are not replicated although a storage level asks for it.

    A warning, except on one machine, where a second copy would be lost with the first.
    """
    replicated = [
        stream_id
        for stream_id, receiver in receivers.items()
        if receiver.storageLevel is not None and receiver.storageLevel.replication > 1
    ]
    if replicated:
        write = log.info if cluster.is_on_this_machine(sc) else log.warning
        write("storage level without effect: blocks are not replicated", stream_ids=replicated)
