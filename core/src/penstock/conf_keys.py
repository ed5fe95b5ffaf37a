"""Every configuration key of the core: its name, type, default and help text.

Declarations only: ``penstock.conf`` parses the values.
"""

# ruff: noqa: RUF009 - these functions make attrs fields, as `attrs.field` does

from __future__ import annotations

from functools import partial
from typing import Literal

from attrs import frozen

from penstock.conf_values import (
    Count,
    DiskLimit,
    DurationMs,
    LogLevel,
    Names,
    Port,
    PositiveBytes,
    PositiveCount,
    PositiveDurationMs,
    RatePerS,
    TimeZone,
    key_field,
)

# The headings of the documentation.
_start_here = partial(key_field, "start here")
_inputs = partial(key_field, "inputs")
_receivers = partial(key_field, "receivers")
_rate = partial(key_field, "rate")
_batches = partial(key_field, "batches")
_recovery = partial(key_field, "recovery")
_network = partial(key_field, "network")
_security = partial(key_field, "security")
_advanced = partial(key_field, "advanced")


@frozen(kw_only=True, repr=False)
class ConfigurationKeys:
    """An attribute for each key, in the order of the documentation, units in the names."""

    profile: Literal["spark", "production"] = _start_here(
        "spark.penstock.profile",
        "spark",
        "Which defaults apply. `spark`: Spark Streaming's. `production`: those of programs that run for months.",
    )
    backpressure_enabled: bool = _start_here(
        "spark.streaming.backpressure.enabled",
        "false",
        "Adjust each receiver's rate so that batches finish within the batch interval.",
        in_production="true",
    )
    max_rate_per_s: RatePerS = _start_here(
        "spark.streaming.receiver.maxRate",
        "0",
        "Maximum records/s that one receiver stores, for every form of `store`. 0 or less: no limit.",
    )
    checkpoint_directory: str = _start_here(
        "spark.streaming.checkpoint.directory",
        "",
        "Checkpoint directory, as if the program called `ssc.checkpoint(directory)`.",
    )
    wal_enabled: bool = _start_here(
        "spark.streaming.receiver.writeAheadLog.enable",
        "false",
        "Write blocks to the receiver write-ahead log (WAL) in the checkpoint directory, with checksums. Received data "
        "then survives the loss of receivers, executors and hosts.",
    )
    stop_gracefully_on_shutdown: bool = _start_here(
        "spark.streaming.stopGracefullyOnShutdown",
        "false",
        "Stop gracefully on SIGTERM, on Ctrl-C, and when the program ends without calling `stop`. A second signal "
        "stops at once. `ssc.run()` always stops gracefully.",
        in_production="true",
    )
    log_level: LogLevel = _start_here(
        "spark.penstock.log.level",
        "WARNING",
        "Lowest level that Penstock logs, on the driver and in receivers. `spark.penstock.log.level.<component>` sets "
        "that of one component; `docs/log-events.md` lists them.",
    )

    block_interval_ms: PositiveDurationMs = _inputs(
        "spark.streaming.blockInterval",
        "200ms",
        "Interval at which the records buffered by `store(record)` are cut into a block.",
    )
    block_queue_size: PositiveCount = _inputs(
        "spark.streaming.blockQueueSize",
        "10",
        "Maximum blocks of a receiver that wait to be stored. When the queue is full, `store` blocks.",
    )
    max_buffered_records: PositiveCount = _inputs(
        "spark.penstock.receiver.maxBufferedRecords",
        "200000",
        "Maximum records in a receiver's buffer, where `store` blocks, and in a block that `store_all` makes.",
    )
    max_buffered_bytes: PositiveBytes = _inputs(
        "spark.penstock.receiver.maxBufferedBytes",
        "64m",
        "The same limits in bytes: the sum of `sys.getsizeof` of the records, and the size of the block.",
    )
    partition_min_bytes: PositiveBytes = _inputs(
        "spark.penstock.partition.minBytes",
        "1m",
        "Minimum partition size. A batch of a receiver stream gets one partition per slot that no receiver occupies, "
        "unless they would be smaller. A batch below twice this size is one partition; reductions do not shuffle it.",
    )
    partition_max_bytes: PositiveBytes = _inputs(
        "spark.penstock.partition.maxBytes",
        "128m",
        "Maximum partition size. A batch that needs more partitions than free slots gets a multiple of the free slots.",
    )
    partition_number: Count = _inputs(
        "spark.penstock.partition.number",
        "0",
        "Fixed number of partitions for each batch of a receiver stream. A batch with few blocks gets fewer: "
        "no block is cut into pieces below the minimum size. 0: by the size of the batch.",
    )
    max_unprocessed: DiskLimit = _inputs(
        "spark.penstock.blocks.maxUnprocessed",
        "50%",
        "Maximum size of the unprocessed blocks on one host, in bytes or as a share of the disk they are on. Above it "
        "all receivers pause until the backlog is below 80% of the limit. 0: no limit.",
    )
    on_lost_blocks: Literal["fail", "skip"] = _inputs(
        "spark.penstock.blocks.onLost",
        "fail",
        "What a batch does when one of its blocks is lost. `fail`: the batch fails. `skip`: the batch continues "
        "without the block. Both report an event with counts.",
    )

    max_receiver_failures: Count = _receivers(
        "spark.penstock.receiver.maxRestarts",
        "10",
        "Failure budget: failures of a receiver within `spark.penstock.receiver.restartWindow` before "
        "`spark.penstock.receiver.onFailure` applies. Counts the failures that cause a restart (same task) or a "
        "relaunch (new task): an error, the death of the process, or a launch or start timeout.",
    )
    receiver_failure_window_ms: PositiveDurationMs = _receivers(
        "spark.penstock.receiver.restartWindow", "10min", "Period over which failures count towards the failure budget."
    )
    on_receiver_failure: Literal["restart", "stop-stream", "fail-application"] = _receivers(
        "spark.penstock.receiver.onFailure",
        "restart",
        "Policy once the failure budget is used up. `restart`: report the receiver as unhealthy (event, log, "
        "`ReceiverInfo.unhealthy`) and keep relaunching it. `stop-stream`: give up this receiver, process what it "
        "stored, keep the other streams running. `fail-application`: stop the context; `awaitTermination` raises the "
        "error.",
    )
    receiver_restart_delay_ms: DurationMs = _receivers(
        "spark.streaming.receiverRestartDelay",
        "2000",
        "Delay between `onStop` and `onStart` of a restart, in the same task. Doubles until data is stored, up "
        "to 30 s.",
    )
    launch_timeout_ms: DurationMs = _receivers(
        "spark.penstock.receiver.launchTimeout",
        "2min",
        "Maximum time from launch to registration. A receiver that exceeds it has failed: its job is cancelled and "
        "relaunched. 0: no timeout.",
    )
    start_timeout_ms: DurationMs = _receivers(
        "spark.penstock.receiver.startTimeout",
        "1min",
        "Maximum time for `onStart` to return. A receiver that exceeds it has failed: its process ends and it is "
        "relaunched. If the receiver has stored data meanwhile, only an error is reported. 0: no timeout.",
    )
    stop_timeout_ms: DurationMs = _receivers(
        "spark.penstock.receiver.stopTimeout",
        "5s",
        "Maximum time for `onStop` to return. When it passes, the error is reported, buffered records are stored and "
        "the receiver's process ends. A receiver that was restarting is relaunched. 0: no timeout.",
    )
    store_retries: Count = _receivers(
        "spark.penstock.receiver.storeRetries",
        "5",
        "Retries, with back-off, of storing a block and of reporting it to the driver, before the receiver fails.",
    )
    rebalance: bool = _receivers(
        "spark.penstock.receiver.rebalance",
        "true",
        "Move receivers when executors join: to an executor that runs at least two receivers fewer, or to an idle one "
        "on the preferred host. One receiver moves at a time; no data is lost.",
    )

    rate_estimator: str = _rate(
        "spark.streaming.backpressure.rateEstimator",
        "pid",  # Spark's default
        "Name of the rate estimator, from any installed plugin. Needs `spark.streaming.backpressure.enabled`.",
    )
    initial_rate_per_s: RatePerS = _rate(
        "spark.streaming.backpressure.initialRate",
        "0",
        "Records/s that each receiver stores until the first estimate.",
        falls_back_to="max_rate_per_s",
    )
    max_total_rate_per_s: RatePerS = _rate(
        "spark.penstock.maxTotalRate",
        "0",
        "Maximum records/s of all receivers of the application together, in equal shares. The unused "
        "share of a slower receiver goes to the others. 0 or less: no limit.",
    )
    burst_ms: PositiveDurationMs = _rate(
        "spark.penstock.receiver.burst",
        "200ms",
        "Burst allowance: in any period t a receiver stores at most rate x (t + burst) records, and at least one.",
        falls_back_to="block_interval_ms",
    )

    concurrent_jobs: PositiveCount = _batches(
        "spark.streaming.concurrentJobs",
        "1",
        "Number of output operations that run at the same time. With more than 1 they run in no fixed order.",
    )
    graceful_stop_timeout_ms: DurationMs = _batches(
        "spark.streaming.gracefulStopTimeout",
        "0",
        "Deadline of a graceful stop as a whole. 0: ten batch intervals, at least a minute.",
    )
    max_failed_batches: Count = _batches(
        "spark.penstock.maxFailedBatches",
        "0",
        "Stop after this many consecutive failed batches; `awaitTermination` then raises the last error. 0: never; "
        "`awaitTermination` raises the first error while later batches continue.",
    )
    on_failed_batch: Literal["continue", "retry", "stop"] = _batches(
        "spark.penstock.onFailedBatch",
        "continue",
        "What follows a failed batch; later batches never wait for it. `continue`: with a checkpoint directory it "
        "waits for a restart, which runs it again. `retry`: run its failed output operations again, first after 1 s, "
        "then after delays that double up to a minute, until they succeed. `stop`: stop with its error; a restart runs "
        "the batch again.",
    )
    max_pending_batches: Count = _batches(
        "spark.penstock.maxPendingBatches", "0", "Maximum batches that wait or run at the same time. 0: no limit."
    )
    on_max_pending_batches: Literal["pause", "drop-oldest"] = _batches(
        "spark.penstock.onMaxPendingBatches",
        "pause",
        "Policy at that limit. `pause`: generate no further batch, and pause the receivers while a batch waits to be "
        "generated. `drop-oldest`: for each new batch, drop the oldest one that has not started, with its data.",
    )
    late_ticks: Literal["fire", "skip"] = _batches(
        "spark.penstock.lateTicks",
        "fire",
        "Batch times that were missed while the driver was suspended or overloaded. `fire`: generate one batch for "
        "each. `skip`: generate one batch, at the last of them, with all data; windows that slide by several batches "
        "need `fire`, because they lose the slides in between.",
    )
    time_zone: TimeZone = _batches(
        "spark.penstock.timeZone",
        "",
        "Time zone of the batch times that functions get, such as `UTC`. Empty: naive local times, as in PySpark.",
    )
    unpersist: bool = _batches(
        "spark.streaming.unpersist", "true", "Unpersist a batch's RDDs and delete its blocks once no stream needs them."
    )

    checkpoint_rebuild: bool = _recovery(
        "spark.penstock.checkpoint.rebuild",
        "false",
        "Recover with the streams that the program's code defines now instead of those in the checkpoint, so that the "
        "code may change. Works without `getOrCreate` too, when the program starts on a checkpoint directory.",
        in_production="true",
    )
    on_checkpoint_mismatch: Literal["fail", "drop-state"] = _recovery(
        "spark.penstock.checkpoint.onMismatch",
        "fail",
        "What to do with state in the checkpoint of a stream that the changed program lacks. `fail`: refuse to start. "
        "`drop-state`: start without that state.",
    )
    on_damage: Literal["fail", "skip"] = _recovery(
        "spark.penstock.checkpoint.onDamage",
        "fail",
        "What to do when a recovery file is corrupt before its last record, or shorter than the checkpoint says. "
        "`fail`: refuse to start. `skip`: recover without the lost data and report how much.",
    )
    catch_up: Literal["all", "skip-empty"] = _recovery(
        "spark.penstock.checkpoint.catchUp",
        "all",
        "Which batches of the downtime are generated on recovery. `all`: every one. `skip-empty`: leave out batches "
        "without data that no window and no state needs.",
    )
    skip_completed_outputs: bool = _recovery(
        "spark.penstock.outputs.skipCompleted",
        "false",
        "Record each completed output operation, and do not repeat it when its batch runs again after recovery.",
    )
    durability: Literal["none", "flush", "fsync"] = _recovery(
        "spark.penstock.writeAheadLog.durability",
        "flush",
        "When a write to a write-ahead log or checkpoint counts as done. `fsync`: when it is on disk. `flush`: when "
        "the operating system has it, which survives the death of the process; a power failure may lose the last "
        "seconds. `none`: at once. With every value, older files stay until their replacements are on disk.",
    )
    wal_max_failures: PositiveCount = _recovery(
        "spark.streaming.receiver.writeAheadLog.maxFailures",
        "3",
        "Attempts to write a block to the receiver WAL before `store` raises; replaces "
        "`spark.penstock.receiver.storeRetries` there. A full disk is retried without limit.",
    )
    driver_wal_rolling_interval_s: Count = _recovery(
        "spark.streaming.driver.writeAheadLog.rollingIntervalSecs",
        "60",
        "Age in seconds at which the driver write-ahead log is compacted into a new file and its old files are "
        "deleted. 16 MB of events have the same effect.",
    )
    driver_wal_max_failures: PositiveCount = _recovery(
        "spark.streaming.driver.writeAheadLog.maxFailures",
        "3",
        "Attempts, each with a new file, to write to the driver write-ahead log before the operation fails.",
    )

    driver_port: Port = _network(
        "spark.penstock.driver.port",
        "0",
        "Port at which the driver accepts receivers, on the address of `spark.driver.bindAddress`. Receivers reach it "
        "at `spark.driver.host`. 0: chosen by the system.",
    )
    receiver_port: Port = _network(
        "spark.penstock.receiver.port",
        "0",
        "First port for a receiver, at which it takes commands and serves its blocks. Each receiver on a host uses "
        "the next free port. 0: chosen by the system.",
    )
    port_max_retries: Count = _network(
        "spark.port.maxRetries",
        "16",
        "Number of further ports to try, one after the other, when a configured port is in use, as in Spark.",
    )

    tls_certificate: str = _security(
        "spark.penstock.wire.tls.certificate",
        "",
        "PEM file with the host's certificate, at the same path on every host. Set all three `wire.tls` keys to "
        "encrypt the connections between driver and executors.",
    )
    tls_key: str = _security("spark.penstock.wire.tls.key", "", "PEM file with the private key of the certificate.")
    tls_authority: str = _security(
        "spark.penstock.wire.tls.authority",
        "",
        "PEM file with the certificate of the authority that signed every host's certificate.",
    )
    tls_mutual: bool = _security(
        "spark.penstock.wire.tls.mutual",
        "true",
        "Mutual TLS: callers of the driver and of receivers must show a certificate of the authority, too.",
    )

    plugins_strict: bool = _advanced(
        "spark.penstock.plugins.strict",
        "false",
        "Refuse to start when a plugin fails to load, instead of leaving it out, or when two plugins offer one name.",
    )
    plugins_disable: Names = _advanced(
        "spark.penstock.plugins.disable", "", "Names of plugins (entry points) to skip, separated by commas."
    )
    plugins_prefer: Names = _advanced(
        "spark.penstock.plugins.prefer",
        "",
        "Distributions, separated by commas. The first one listed here wins if several plugins offer a name, or answer "
        "one of the hooks `dataframes`, `columns` and `state`. Without a winner, the name is refused when it is used.",
    )
    log_format: Literal["console", "json"] = _advanced(
        "spark.penstock.log.format",
        "console",
        "Format of log events. `console`: for people. `json`: one JSON object per line.",
    )
    extra_listeners: Names = _advanced(
        "spark.streaming.extraListeners",
        "",
        "Listeners. `package.module.Class`: a class, called with a `ListenerContext` if it takes an argument, or an "
        "object. `name`: an installed plugin that must offer listeners. The start fails when one cannot be added.",
    )
    listener_queue_size: PositiveCount = _advanced(
        "spark.penstock.listener.queueSize",
        "10000",
        "Maximum events that wait for one listener. Further events are dropped for this listener and counted.",
    )
    wire_timeout_ms: PositiveDurationMs = _advanced(
        "spark.penstock.wire.timeout", "30s", "Timeout of a request between driver and executors."
    )
