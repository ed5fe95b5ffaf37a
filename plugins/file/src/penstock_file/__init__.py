"""Files: the streams of ``textFileStream``, ``binaryRecordsStream`` and ``fileStream``; a receiver of growing files."""

from __future__ import annotations

from collections.abc import Iterable

from penstock import InputStreamSpec, ReceiverSpec, hookimpl
from penstock_file.file_receiver import FileReceiver, FileReceiverOptions
from penstock_file.file_source import (
    BinaryRecordsOptions,
    FileSource,
    FileStreamOptions,
    TextFileOptions,
    binary_records,
    files,
    text_files,
)

__all__ = [
    "BinaryRecordsOptions",
    "FileReceiver",
    "FileReceiverOptions",
    "FileSource",
    "FileStreamOptions",
    "TextFileOptions",
    "input_streams",
    "receivers",
]


@hookimpl
def input_streams() -> Iterable[InputStreamSpec]:
    """Offer the streams ``text-file``, ``binary-records`` and ``file``."""
    return (
        InputStreamSpec("text-file", text_files, TextFileOptions, "lines of new files in a directory"),
        InputStreamSpec(
            "binary-records",
            binary_records,
            BinaryRecordsOptions,
            "records of fixed length of new files in a directory",
        ),
        InputStreamSpec("file", files, FileStreamOptions, "what a function reads from new files in a directory"),
    )


@hookimpl
def receivers() -> Iterable[ReceiverSpec]:
    """Offer the receiver ``file``."""
    return (ReceiverSpec("file", FileReceiver, FileReceiverOptions, "lines of text appended to files"),)
