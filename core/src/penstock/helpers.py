"""Helpers for plugins, beside the contract in ``penstock`` itself.

A queue for callbacks, text lines, files and directories of any file system, logging, error messages.
"""

from typing import TYPE_CHECKING

from penstock._exports import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)

if TYPE_CHECKING:
    from penstock.errors import text_of as text_of
    from penstock.receive.store_queue import StoreQueue as StoreQueue
    from penstock.receive.text_lines import ErrorCounts as ErrorCounts
    from penstock.receive.text_lines import LineRules as LineRules
    from penstock.receive.text_lines import Lines as Lines
    from penstock.receive.text_lines import split_lines as split_lines
    from penstock.runtime.atomic_write import atomic_write as atomic_write
    from penstock.runtime.log import get_logger as get_logger
    from penstock.storage.directory import Appender as Appender
    from penstock.storage.directory import Directory as Directory
    from penstock.storage.directory import Durability as Durability
    from penstock.storage.uri import absolute_location as absolute_location
    from penstock.storage.uri import connect as connect
    from penstock.storage.uri import is_remote as is_remote
