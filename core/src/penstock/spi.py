"""The service provider interface: what plugins and other engines use of the runtime, beside ``penstock`` itself.

By topic: blocks, configuration, files, hosting receivers, listening, loading plugins, logging and errors, rate
estimators, reading text, the runtime. Each name is imported when it is first used, as in ``penstock``.
"""

from typing import TYPE_CHECKING

from penstock._exports import lazy_exports as lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)

if TYPE_CHECKING:
    # isort: off
    # -- blocks: how records become Arrow and back, where blocks are stored, how tasks read them --
    from penstock.blocks.arrow_form import encode as encode
    from penstock.blocks.arrow_form import is_columnar as is_columnar
    from penstock.blocks.arrow_form import is_pickled as is_pickled
    from penstock.blocks.arrow_form import records as records
    from penstock.blocks.block import BlockReference as BlockReference
    from penstock.blocks.block_file import open_block_file as open_block_file
    from penstock.blocks.block_file import write_block_file as write_block_file
    from penstock.blocks.block_server import BlockServer as BlockServer
    from penstock.blocks.received_block_handler import LocalBlockHandler as LocalBlockHandler
    from penstock.wire.token import Token as Token
    from penstock.worker.arrow_types import conform as conform
    from penstock.worker.block_reader import read_block as read_block

    # -- configuration --
    from penstock.conf import OPTION_SECTIONS as OPTION_SECTIONS
    from penstock.conf_table import keys as keys
    from penstock.conf_values import PositiveBytes as PositiveBytes
    from penstock.conf_values import PositiveDurationS as PositiveDurationS

    # -- errors and logging --
    from penstock.errors import UnknownNameError as UnknownNameError
    from penstock.errors import summary_of as summary_of
    from penstock.errors import text_of as text_of
    from penstock.runtime.log import get_logger as get_logger
    from penstock.runtime.log import throttle as throttle

    # -- files and directories of any file system --
    from penstock.runtime.atomic_write import atomic_write as atomic_write
    from penstock.storage.directory import Appender as Appender
    from penstock.storage.directory import Directory as Directory
    from penstock.storage.directory import Durability as Durability
    from penstock.storage.uri import absolute_location as absolute_location
    from penstock.storage.uri import connect as connect
    from penstock.storage.uri import is_remote as is_remote

    # -- graph: an input stream of one's own --
    from penstock.graph.dstream_graph import DStreamGraph as DStreamGraph
    from penstock.graph.inputs import InputDStream as InputDStream

    # -- hosting receivers --
    from penstock.receive.from_plugin import make_receiver as make_receiver
    from penstock.receive.from_plugin import receiver_spec as receiver_spec
    from penstock.receive.pickling import unpickled_copy as unpickled_copy
    from penstock.receive.store_queue import StoreQueue as StoreQueue

    # -- listeners: events and how they are delivered --
    from penstock.listen.events import HOOK_OF as HOOK_OF
    from penstock.listen.events import Event as Event
    from penstock.listen.events import callbacks_of as callbacks_of
    from penstock.listen.streaming_listener import EventView as EventView
    from penstock.listen.streaming_listener import is_streaming_listener as is_streaming_listener

    # -- loading plugins and reading their options --
    from penstock.hookspecs import API_VERSION as API_VERSION
    from penstock.hookspecs import COMMANDS_GROUP as COMMANDS_GROUP
    from penstock.hookspecs import GROUP as GROUP
    from penstock.hookspecs import SUITES_GROUP as SUITES_GROUP
    from penstock.plugins.discovery import KINDS as KINDS
    from penstock.plugins.discovery import LEGAL_NAME as LEGAL_NAME
    from penstock.plugins.discovery import LoadedPlugin as LoadedPlugin
    from penstock.plugins.discovery import Plugins as Plugins
    from penstock.plugins.specs import Option as Option
    from penstock.plugins.specs import Spec as Spec
    from penstock.plugins.specs import options_of as options_of
    from penstock.plugins.specs import read_options as read_options
    from penstock.plugins.specs import structure_options as structure_options

    # -- rate estimators as a program guards them --
    from penstock.rate.attribution import attributed_ms as attributed_ms
    from penstock.rate.guarded_estimator import GuardedEstimator as GuardedEstimator
    from penstock.rate.guarded_estimator import guarded as guarded
    from penstock.rate.guarded_estimator import make_estimator as make_estimator
    from penstock.rate.guarded_estimator import make_rate_estimator as make_rate_estimator

    # -- reading text --
    from penstock.receive.text_lines import ErrorCounts as ErrorCounts
    from penstock.receive.text_lines import LineRules as LineRules
    from penstock.receive.text_lines import Lines as Lines
    from penstock.receive.text_lines import split_lines as split_lines

    # -- runtime: clocks, threads, the state of the process --
    from penstock.runtime.clock import Clock as Clock
    from penstock.runtime.clock import ManualClock as ManualClock
    from penstock.runtime.global_state import GlobalState as GlobalState
    from penstock.runtime.threads import EngineThread as EngineThread
    # isort: on
