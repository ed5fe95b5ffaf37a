"""``Secret``: an option that names where a password is, and never contains it."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Annotated, Any

import attrs
from attrs import field, frozen

from penstock import PenstockError
from penstock.spi import TextForm

_FORMS = "file:PATH or env:NAME"
_ADVICE = f"must be {_FORMS}, where the executor finds the secret: a literal would get into logs, pages and checkpoints"


class SecretError(PenstockError):
    """The file or environment variable with a secret cannot be read."""


def _is_reference(_secret: Secret, _attribute: attrs.Attribute[str], value: str) -> None:
    kind, _, name = value.partition(":")
    if kind not in {"file", "env"} or not name:
        raise ValueError(_ADVICE)


@frozen(repr=False)
class Secret:
    """A reference to a secret: ``file:PATH`` or ``env:NAME``.

    Attributes:
        reference: shown in messages, pages and checkpoints.

    Raises:
        ValueError: the text is not a reference. The message does not repeat it.
    """

    reference: str = field(validator=_is_reference)

    def __str__(self) -> str:
        return self.reference

    def __repr__(self) -> str:
        return f"Secret({self.reference!r})"

    def read(self) -> str:
        """The secret, without a newline at its end. Call it on the executor, for each connection.

        Raises:
            SecretError: the file cannot be read, or the variable is not set; or the secret is empty.
        """
        kind, _, name = self.reference.partition(":")
        try:
            text = Path(name).read_text(encoding="utf-8") if kind == "file" else os.environ[name]
        except KeyError:
            raise SecretError(
                f"the environment variable {name} with a secret is not set on {socket.gethostname()}, which "
                f"needs it: spark.executorEnv.{name} sets it on executors, or use file:PATH"
            ) from None
        except UnicodeDecodeError:
            raise SecretError(f"the file {name} with a secret is not UTF-8") from None
        except OSError as error:
            raise SecretError(
                f"the file {name} with a secret cannot be read on {socket.gethostname()}, which needs it: "
                f"{error.strerror}"
            ) from None
        secret = text.removesuffix("\n").removesuffix("\r")
        if not secret:
            raise SecretError(f"the secret at {self.reference} is empty")
        return secret


#: The type of an option with a secret; give it the field of ``secret_option``.
SecretText = Annotated[Secret, TextForm(_FORMS, Secret)]


def secret_option(help: str, validator: Any = None) -> Any:
    """The field of an optional secret, whose type is ``SecretText | None``: no error shows a literal as its value."""
    metadata = {"help": f"{help}; read on the executor"}
    return field(default=None, repr=False, validator=validator, metadata=metadata)
