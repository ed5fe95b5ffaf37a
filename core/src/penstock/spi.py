"""What other engines and plugins need from the runtime, beside the contract in ``penstock`` itself.

For a plugin that runs receivers, serves or reads blocks, adds operations to streams, shows what is installed or saved,
or shares what the first-party plugins use. A name here changes only with a new minor version and an entry in the
changelog. Nothing in the core imports this module.
"""

from typing import TYPE_CHECKING

from penstock._exports import lazy_exports as lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)

if TYPE_CHECKING:
    from penstock.blocks.arrow_form import encode as encode
    from penstock.blocks.arrow_form import is_columnar as is_columnar
    from penstock.blocks.arrow_form import is_pickled as is_pickled
    from penstock.blocks.arrow_form import records as records
    from penstock.blocks.block import BlockReference as BlockReference
    from penstock.blocks.block_file import open_block_file as open_block_file
    from penstock.blocks.block_file import write_block_file as write_block_file
    from penstock.blocks.block_transfer import BlockServer as BlockServer
    from penstock.blocks.packing import Packable as Packable
    from penstock.blocks.packing import pack as pack
    from penstock.blocks.received_block_handler import LocalBlockHandler as LocalBlockHandler
    from penstock.blocks.received_block_handler import stream_directory as stream_directory
    from penstock.checkpoint.checkpoint_format import BLOCK_LOG as BLOCK_LOG
    from penstock.checkpoint.checkpoint_format import COMPLETED_OUTPUTS as COMPLETED_OUTPUTS
    from penstock.checkpoint.checkpoint_format import Checkpoint as Checkpoint
    from penstock.checkpoint.checkpoint_store import CheckpointStore as CheckpointStore
    from penstock.conf import KEYS as KEYS
    from penstock.conf import Settings as Settings
    from penstock.conf_values import PositiveBytes as PositiveBytes
    from penstock.conf_values import PositiveDurationS as PositiveDurationS
    from penstock.conf_warnings import keys_without_effect as keys_without_effect
    from penstock.errors import ResultTypeError as ResultTypeError
    from penstock.errors import UnknownNameError as UnknownNameError
    from penstock.errors import shortened as shortened
    from penstock.errors import shown as shown
    from penstock.errors import summary_of as summary_of
    from penstock.errors import text_of as text_of
    from penstock.graph.arguments import require_callable as require_callable
    from penstock.graph.arguments import with_time as with_time
    from penstock.graph.batch_input import BatchInput as BatchInput
    from penstock.graph.batch_input import BlocksInput as BlocksInput
    from penstock.graph.dstream import node_of as node_of
    from penstock.graph.dstream_graph import DStreamGraph as DStreamGraph
    from penstock.graph.input_dstreams import InputDStream as InputDStream
    from penstock.graph.node import Node as Node
    from penstock.graph.outputs import ForEachDStream as ForEachDStream
    from penstock.hookspecs import API_VERSION as API_VERSION
    from penstock.hookspecs import COMMANDS_GROUP as COMMANDS_GROUP
    from penstock.hookspecs import GROUP as GROUP
    from penstock.hookspecs import SUITES_GROUP as SUITES_GROUP
    from penstock.journal.reader import read_log as read_log
    from penstock.json_converter import structure as structure
    from penstock.json_converter import unstructure as unstructure
    from penstock.listen.events import HOOK_OF as HOOK_OF
    from penstock.listen.events import Event as Event
    from penstock.listen.registered_listener import register as register
    from penstock.plugins.discovery import KINDS as KINDS
    from penstock.plugins.discovery import LEGAL_NAME as LEGAL_NAME
    from penstock.plugins.discovery import NAME_RULE as NAME_RULE
    from penstock.plugins.discovery import LoadedPlugin as LoadedPlugin
    from penstock.plugins.discovery import Plugins as Plugins
    from penstock.plugins.discovery import additional_entry_points as additional_entry_points
    from penstock.plugins.specs import Option as Option
    from penstock.plugins.specs import Spec as Spec
    from penstock.plugins.specs import fields_of as fields_of
    from penstock.plugins.specs import options_of as options_of
    from penstock.plugins.specs import read_options as read_options
    from penstock.plugins.specs import structure_options as structure_options
    from penstock.rate.attribution import attributed_ms as attributed_ms
    from penstock.rate.guarded_estimator import GuardedEstimator as GuardedEstimator
    from penstock.rate.guarded_estimator import make_rate_estimator as make_rate_estimator
    from penstock.receive.receiver import check_picklable as check_picklable
    from penstock.receive.text_lines import ErrorCounts as ErrorCounts
    from penstock.receive.text_lines import LineRules as LineRules
    from penstock.receive.text_lines import split_lines as split_lines
    from penstock.runtime.atomic_write import atomic_write as atomic_write
    from penstock.runtime.clock import Clock as Clock
    from penstock.runtime.clock import iso_time as iso_time
    from penstock.runtime.global_state import GlobalState as GlobalState
    from penstock.runtime.log import get_logger as get_logger
    from penstock.runtime.log import set_level as set_level
    from penstock.runtime.log import throttle as throttle
    from penstock.runtime.threads import EngineThread as EngineThread
    from penstock.spark.failure import reason as reason
    from penstock.spark.rdds import known_partitions as known_partitions
    from penstock.spark.spark_conf import Property as Property
    from penstock.spark.spark_conf import conf_here as conf_here
    from penstock.spark.spark_conf import read_properties as read_properties
    from penstock.storage.directory import Appender as Appender
    from penstock.storage.directory import Directory as Directory
    from penstock.storage.directory import Durability as Durability
    from penstock.storage.uri import absolute_location as absolute_location
    from penstock.storage.uri import connect as connect
    from penstock.storage.uri import is_remote as is_remote
    from penstock.track.allocations import Allocations as Allocations
    from penstock.wire.token import Token as Token
    from penstock.worker.block_reader import read_block as read_block
    from penstock.worker.conform import conform as conform
    from penstock.worker.conform import describe_schema as describe_schema
    from penstock.worker.conform import require_values as require_values
