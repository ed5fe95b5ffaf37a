"""Pickling a receiver, as it travels to an executor; the error names the attribute that cannot be pickled."""

from __future__ import annotations

from typing import Any, cast

from penstock.errors import ConfigurationError, text_of
from penstock.receive.receiver import Receiver


def check_picklable(receiver: Receiver[Any], owner: str = "") -> bytes:
    """Pickle a receiver as Spark does.

    Args:
        receiver: the program's instance.
        owner: which one it is, for the message, such as `` of stream 3``.

    Raises:
        ConfigurationError: it cannot be sent to an executor; the message names the attribute.
    """
    # Imports all of PySpark.
    from pyspark import cloudpickle

    what = f"receiver {type(receiver).__name__}{owner} cannot be sent to an executor"
    try:
        return cast(bytes, cloudpickle.dumps(receiver))
    except Exception as error:
        first = error
    for name, value in vars(receiver).items():
        try:
            cloudpickle.dumps(value)
        except Exception as error:
            raise ConfigurationError(
                f"{what}: its attribute {name!r} ({type(value).__name__}) cannot be pickled: {text_of(error)}. Create "
                "it in onStart, not in __init__."
            ) from None
    raise ConfigurationError(f"{what}: {text_of(first)}") from None
