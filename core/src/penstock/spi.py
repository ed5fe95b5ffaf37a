"""The runtime's interface for other engines and plugins, beside the contract in ``penstock`` itself.

For a plugin that runs receivers, serves or reads blocks, adds operations to streams, shows what is installed or saved,
or shares what the first-party plugins use. A name here changes only with a new minor version and an entry in the
changelog. Nothing in the core imports this module.

A plugin that carries state from batch to batch derives a node from ``StatefulDStream``, which checkpoints and recovers
it.
"""

from typing import TYPE_CHECKING

from penstock._exports import lazy_exports as lazy_exports

_GONE = {
    "Lines": "use split_lines and LineRules",
    "StoreQueue": "use a queue.Queue and a penstock.ThreadReceiver",
    "keys": "use KEYS",
    "make_receiver": 'use Plugins(...).make("receivers", name, settings, options)',
    "receiver_spec": 'use Plugins(...).spec("receivers", name)',
}
__getattr__, __dir__ = lazy_exports(__name__, _GONE)

if TYPE_CHECKING:
    from penstock.blocks.arrow_form import (
        encode as encode,
        is_columnar as is_columnar,
        is_pickled as is_pickled,
        open_block_file as open_block_file,
        records as records,
        write_block_file as write_block_file,
    )
    from penstock.blocks.block import BlockReference as BlockReference
    from penstock.blocks.block_transfer import BlockServer as BlockServer
    from penstock.blocks.partition_packing import Packable as Packable, pack as pack
    from penstock.blocks.received_block_handler import (
        LocalBlockHandler as LocalBlockHandler,
        stream_directory as stream_directory,
    )
    from penstock.checkpoint.checkpoint_format import (
        BLOCK_LOG as BLOCK_LOG,
        COMPLETED_OUTPUTS as COMPLETED_OUTPUTS,
        Checkpoint as Checkpoint,
    )
    from penstock.checkpoint.checkpoint_store import CheckpointStore as CheckpointStore
    from penstock.conf import KEYS as KEYS, Settings as Settings
    from penstock.conf_values import (
        PositiveBytes as PositiveBytes,
        PositiveDurationS as PositiveDurationS,
        TextForm as TextForm,
    )
    from penstock.conf_warnings import keys_without_effect as keys_without_effect
    from penstock.errors import (
        ReceiverStuckError as ReceiverStuckError,
        ResultTypeError as ResultTypeError,
        UnknownNameError as UnknownNameError,
        printable as printable,
        shortened as shortened,
        shown as shown,
        summary_of as summary_of,
        text_of as text_of,
    )
    from penstock.graph.arguments import with_time as with_time
    from penstock.graph.batch_input import BatchInput as BatchInput, BlocksInput as BlocksInput
    from penstock.graph.dstream import MapWithStateDStream as MapWithStateDStream, node_of as node_of
    from penstock.graph.dstream_graph import DStreamGraph as DStreamGraph
    from penstock.graph.input_dstreams import InputDStream as InputDStream
    from penstock.graph.node import Node as Node
    from penstock.graph.outputs import ForEachDStream as ForEachDStream
    from penstock.graph.per_batch import (
        MapPartitionsDStream as MapPartitionsDStream,
        ShuffledDStream as ShuffledDStream,
    )
    from penstock.graph.state_spec import StateOptions as StateOptions, WindowOptions as WindowOptions
    from penstock.graph.stateful import StatefulDStream as StatefulDStream
    from penstock.hookspecs import (
        API_VERSION as API_VERSION,
        GROUP as GROUP,
    )
    from penstock.journal.reader import read_log as read_log
    from penstock.json_converter import structure as structure, unstructure as unstructure
    from penstock.listen.events import HOOK_OF as HOOK_OF, Event as Event
    from penstock.listen.registered_listener import register as register
    from penstock.plugins.discovery import (
        LoadedPlugin as LoadedPlugin,
        Plugins as Plugins,
    )
    from penstock.plugins.listener_context import attributed_ms as attributed_ms
    from penstock.plugins.specs import (
        Option as Option,
        Spec as Spec,
        structure_options as structure_options,
    )
    from penstock.rate.guarded_estimator import (
        GuardedEstimator as GuardedEstimator,
    )
    from penstock.receive.receiver import check_picklable as check_picklable
    from penstock.receive.relaunch_policy import RelaunchPolicy as RelaunchPolicy
    from penstock.receive.text_lines import (
        ErrorCounts as ErrorCounts,
        LineRules as LineRules,
        split_lines as split_lines,
    )
    from penstock.runtime.clock import Clock as Clock
    from penstock.runtime.log import get_logger as get_logger, set_level as set_level, throttle as throttle
    from penstock.runtime.pickle_value import pickle_value as pickle_value
    from penstock.runtime.private_files import (
        atomic_write as atomic_write,
        executor_directory as executor_directory,
        make_private as make_private,
        own_directory as own_directory,
    )
    from penstock.runtime.redaction import Redaction as Redaction, secret_names as secret_names
    from penstock.runtime.threads import EngineThread as EngineThread
    from penstock.spark.failure import reason as reason
    from penstock.spark.local_properties import operation_of_tags as operation_of_tags
    from penstock.spark.rdds import known_partitions as known_partitions
    from penstock.spark.spark_conf import (
        conf_here as conf_here,
        read_properties as read_properties,
    )
    from penstock.storage.directory import Appender as Appender, Directory as Directory
    from penstock.storage.uri import absolute_location as absolute_location, connect as connect, is_remote as is_remote
    from penstock.track.allocations import Allocations as Allocations
    from penstock.version import check_core_version as check_core_version
    from penstock.wire.token import Token as Token
    from penstock.worker.block_reader import BlockRecords as BlockRecords, read_block as read_block
    from penstock.worker.combine import MISSING as MISSING, merge_by_key as merge_by_key
