"""Helpers for plugins, beside the contract in ``penstock`` itself.

For receivers and listeners: a queue for callbacks, text lines, files and directories of any file system, logging, error
messages. For engines that run receivers themselves: blocks, and how to write, serve and read them. For command lines:
the loaded plugins, the configuration of this process, and the contents of a checkpoint directory.
"""

from typing import TYPE_CHECKING

from penstock._exports import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)

if TYPE_CHECKING:
    from penstock.blocks.arrow_form import is_pickled as is_pickled
    from penstock.blocks.block import BlockReference as BlockReference
    from penstock.blocks.block_file import open_block_file as open_block_file
    from penstock.blocks.block_file import write_block_file as write_block_file
    from penstock.blocks.block_server import BlockServer as BlockServer
    from penstock.blocks.packing import Packable as Packable
    from penstock.blocks.packing import pack as pack
    from penstock.blocks.received_block_handler import stream_directory as stream_directory
    from penstock.checkpoint.manifest import Checkpoint as Checkpoint
    from penstock.checkpoint.manifest import SavedInput as SavedInput
    from penstock.checkpoint.manifest import SavedState as SavedState
    from penstock.checkpoint.saved_logs import SavedLog as SavedLog
    from penstock.checkpoint.saved_logs import saved_logs as saved_logs
    from penstock.checkpoint.store import CheckpointStore as CheckpointStore
    from penstock.conf import KEYS as KEYS
    from penstock.conf import OPTION_SECTIONS as OPTION_SECTIONS
    from penstock.conf import Settings as Settings
    from penstock.conf_values import PositiveBytes as PositiveBytes
    from penstock.conf_values import PositiveDurationS as PositiveDurationS
    from penstock.conf_warnings import keys_without_effect as keys_without_effect
    from penstock.errors import UnknownNameError as UnknownNameError
    from penstock.errors import summary_of as summary_of
    from penstock.errors import text_of as text_of
    from penstock.hookspecs import COMMANDS_GROUP as COMMANDS_GROUP
    from penstock.hookspecs import GROUP as GROUP
    from penstock.hookspecs import SUITES_GROUP as SUITES_GROUP
    from penstock.plugins.discovery import KINDS as KINDS
    from penstock.plugins.discovery import LEGAL_NAME as LEGAL_NAME
    from penstock.plugins.discovery import NAME_RULE as NAME_RULE
    from penstock.plugins.discovery import LoadedPlugin as LoadedPlugin
    from penstock.plugins.discovery import Plugins as Plugins
    from penstock.plugins.discovery import additional_entry_points as additional_entry_points
    from penstock.plugins.specs import fields_of as fields_of
    from penstock.plugins.specs import options_of as options_of
    from penstock.plugins.specs import read_options as read_options
    from penstock.plugins.specs import structure_options as structure_options
    from penstock.rate.guarded_estimator import make_rate_estimator as make_rate_estimator
    from penstock.receive.from_plugin import make_receiver as make_receiver
    from penstock.receive.from_plugin import receiver_spec as receiver_spec
    from penstock.receive.store_queue import StoreQueue as StoreQueue
    from penstock.receive.text_lines import ErrorCounts as ErrorCounts
    from penstock.receive.text_lines import LineRules as LineRules
    from penstock.receive.text_lines import Lines as Lines
    from penstock.receive.text_lines import split_lines as split_lines
    from penstock.runtime.atomic_write import atomic_write as atomic_write
    from penstock.runtime.clock import iso_time as iso_time
    from penstock.runtime.log import get_logger as get_logger
    from penstock.runtime.log import set_level as set_level
    from penstock.spark.failure import reason as reason
    from penstock.spark.launch_conf import Property as Property
    from penstock.spark.launch_conf import conf_here as conf_here
    from penstock.spark.launch_conf import read_properties as read_properties
    from penstock.storage.directory import Appender as Appender
    from penstock.storage.directory import Directory as Directory
    from penstock.storage.directory import Durability as Durability
    from penstock.storage.uri import absolute_location as absolute_location
    from penstock.storage.uri import connect as connect
    from penstock.storage.uri import is_remote as is_remote
    from penstock.wire.token import Token as Token
    from penstock.worker.arrow_types import conform as conform
    from penstock.worker.block_reader import read_block as read_block
