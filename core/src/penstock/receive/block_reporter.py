"""``BlockReporter``: reports the blocks of all threads to the driver, in groups.

While one report is under way, blocks that are stored meanwhile wait and are reported together. A group does not change
between retries, so that the driver accepts all of it or nothing. The thread that stored the first block of a group
reports for all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from attrs import define, field

from penstock.blocks.block import StoredBlock
from penstock.errors import StoreError, text_of
from penstock.wire.messages import Reply


@define(eq=False)
class _Group:
    blocks: list[StoredBlock] = field(factory=list)
    reply: Reply | None = None
    error: BaseException | None = None

    @property
    def is_answered(self) -> bool:
        return self.reply is not None or self.error is not None


class BlockReporter:
    """Report blocks, one group at a time.

    Args:
        report: sends a group to the driver and returns its answer.
    """

    def __init__(self, report: Callable[[list[StoredBlock]], Reply]) -> None:
        self._report = report
        self._changed = threading.Condition()
        self._is_reporting = False
        # Blocks that wait for the report under way.
        self._next = _Group()

    def report(self, block: StoredBlock) -> Reply:
        """Return the driver's answer to a block.

        Raises:
            StoreError: the report failed.
        """
        with self._changed:
            group = self._next
            group.blocks.append(block)
            self._changed.wait_for(lambda: group.is_answered or not self._is_reporting)
            leads = not group.is_answered
            if leads:
                self._is_reporting, self._next = True, _Group()
        if leads:
            self._report_group(group)
        elif group.error is not None:
            raise StoreError(text_of(group.error)) from group.error
        assert group.reply is not None
        return group.reply

    def _report_group(self, group: _Group) -> None:
        reply: Reply | None = None
        error: BaseException | None = None
        try:
            reply = self._report(group.blocks)
        except BaseException as raised:
            error = raised
            raise
        finally:
            with self._changed:
                group.reply, group.error, self._is_reporting = reply, error, False
                self._changed.notify_all()
