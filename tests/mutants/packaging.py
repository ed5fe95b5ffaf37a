"""Mutants of the plugin checks PK-01 to PK-11, PK-15 and PK-16: distributions, installed while they are checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.mutants.mutant import Mutant

REFERENCE = '''"""A receiver plugin that passes every packaging check."""

import attrs

from penstock import ReceiverSpec, ThreadReceiver, hookimpl
from penstock_testing import MemorySource

penstock_api = "1"


@attrs.frozen
class Options:
    server: str = attrs.field(metadata={"help": "of the source"})
    pause_s: float = attrs.field(
        default=1.0, validator=attrs.validators.gt(0), metadata={"help": "seconds between two connections"}
    )
    password: str = attrs.field(default="", repr=False, metadata={"help": "of the account"})


class Memory(ThreadReceiver):
    def __init__(self, options):
        self.options, self.connection = options, None

    def receive(self):
        self.connection = connection = MemorySource.find(self.options.server).connect()
        while not self.isStopped() and (found := connection.read()):
            self.store_all([record for _, record in found])

    def onStop(self):
        if self.connection is not None:
            self.connection.close()
        super().onStop()


@hookimpl
def receivers():
    return [ReceiverSpec("NAME", Memory, Options, "records of a source in memory")]
'''
README = "A receiver with the options server, pause_s and password."


def distribution(
    name: str, source: str = REFERENCE, readme: str = README, entry_points: str = "[penstock]\n{name} = {name}"
) -> dict[str, str]:
    """The files of an installed distribution: one module, its entry points and its README."""
    return {
        f"{name}.py": source.replace("NAME", name),
        f"dist_{name}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: dist-{name}\nVersion: 1.0\n\n{readme}\n",
        f"dist_{name}-1.0.dist-info/entry_points.txt": entry_points.format(name=name) + "\n",
    }


def reference(*changes: tuple[str, str]) -> str:
    """The source of the reference, changed."""
    source = REFERENCE
    for old, new in changes:
        assert old in source, old
        source = source.replace(old, new)
    return source


def packaged(check: str, words: str, name: str, defect: str, source: str = REFERENCE, **more: Any) -> Mutant:
    """A mutant that is a plugin of this name."""
    files = more.pop("files", None) or distribution(name, source, more.pop("readme", README))
    return Mutant(
        check=check,
        words=words,
        kind="plugin",
        defect=defect,
        files=files,
        extra={"name": name, "options": _OPTIONS},
        **more,
    )


_OPTIONS: Mapping[str, str] = {"server": "nowhere"}
_LISTENER = """
from penstock import hookimpl

class Listener:
    def __init__(self, seconds):
        self.seconds = seconds

    def onBatchCompleted(self, batchCompleted):
        pass

@hookimpl
def listeners(context):
    return [Listener(float(context.configuration.get("spark.penstock.NAME.seconds", "1")))]
"""

# A listener that declares its options, and reads them as declared.
_CONFIGURED = """
import attrs
from penstock import hookimpl

@attrs.frozen
class Options:
    seconds: float = attrs.field(
        default=1.0, validator=attrs.validators.gt(0), metadata={"help": "between two reports"}
    )
    token: str = attrs.field(default="", repr=False, metadata={"help": "of the account"})

penstock_options = {"spark.penstock.NAME.": Options}

class Listener:
    def __init__(self, options):
        self.options = options

    def onBatchCompleted(self, batchCompleted):
        pass

@hookimpl
def listeners(context):
    return [Listener(context.options("spark.penstock.NAME.", Options))]
"""


def configured(check: str, words: str, name: str, defect: str, old: str, new: str) -> Mutant:
    """A mutant that is a listener with declared options."""
    assert old in _CONFIGURED, old
    files = distribution(name, _CONFIGURED.replace(old, new), readme="A listener with the options seconds and token.")
    return packaged(check, words, name, defect, files=files)


MUTANTS = [
    packaged(
        "PK-01",
        "No module named 'no_such_library'",
        "pk_import",
        "Imports a library that is not installed.",
        "import no_such_library\n" + REFERENCE,
    ),
    packaged(
        "PK-01",
        "ended the process with exit status 3",
        "pk_exit",
        "Ends the process when it is imported.",
        "import os\nos._exit(3)\n",
    ),
    packaged(
        "PK-01",
        "did not load within",
        "pk_hang",
        "Waits for ever when it is imported.",
        "import threading\nthreading.Event().wait()\n",
        scale=0.1,
    ),
    packaged(
        "PK-02",
        "in the group 'penstock.receivers', which Penstock ignores",
        "pk_group",
        "Has a second entry point in a group that does not exist.",
        files=distribution(
            "pk_group", entry_points="[penstock]\n{name} = {name}\n[penstock.receivers]\n{name} = {name}"
        ),
    ),
    packaged(
        "PK-02",
        "in the group 'penstok', which Penstock ignores",
        "pk_typo",
        "Has its entry point in a group whose name is misspelt.",
        files=distribution("pk_typo", entry_points="[penstok]\n{name} = {name}"),
        also=("PK-01",),
        because="the loader finds no entry point",
    ),
    packaged(
        "PK-03",
        "dist-pk_other offers the receiver 'pk_taken', too",
        "pk_taken",
        "Offers a receiver whose name another plugin has taken.",
        files=distribution("pk_taken") | distribution("pk_other", reference(("NAME", "pk_taken"))),
    ),
    packaged(
        "PK-03",
        "'The Name' is not lowercase",
        "pk_name",
        "Offers a receiver whose name has capitals and a space.",
        reference(("NAME", "The Name")),
    ),
    packaged(
        "PK-04",
        "unknown hook 'recievers'",
        "pk_hook",
        "Misspells the name of a hook.",
        reference(("def receivers", "def recievers")),
    ),
    packaged(
        "PK-05",
        "version 2 of the plugin contract",
        "pk_api",
        "Declares another version of the contract.",
        reference(('penstock_api = "1"', 'penstock_api = "2"')),
    ),
    packaged(
        "PK-06",
        "thread 'eager' is alive",
        "pk_thread",
        "Starts a thread when it is imported.",
        REFERENCE
        + "\nimport threading\nthreading.Thread(target=threading.Event().wait, name='eager', daemon=True).start()\n",
    ),
    packaged(
        "PK-06",
        "of the root logger changed",
        "pk_logging",
        "Configures the root logger when it is imported.",
        REFERENCE + "\nimport logging\nlogging.basicConfig()\n",
    ),
    packaged("PK-06", "it printed 'hello", "pk_print", "Prints when it is imported.", REFERENCE + "\nprint('hello')\n"),
    packaged(
        "PK-06",
        "pyspark is imported",
        "pk_spark",
        "Imports Spark; here a stand-in, which takes no time.",
        REFERENCE + "\nimport sys, types\nsys.modules.setdefault('pyspark', types.ModuleType('pyspark'))\n",
    ),
    packaged(
        "PK-07",
        "the import took",
        "pk_slow",
        "Takes 200 ms of a processor to import.",
        REFERENCE + "\nimport time\nuntil = time.process_time() + 0.2\nwhile time.process_time() < until: pass\n",
        scale=0.2,
    ),
    packaged(
        "PK-08",
        "'server' of the receiver 'pk_help' has no help",
        "pk_help",
        "Has an option without help.",
        reference(('metadata={"help": "of the source"}', "")),
    ),
    packaged(
        "PK-08",
        "'server' of the receiver 'pk_type' has no type",
        "pk_type",
        "Has an option without a type.",
        reference(("server: str", "server: object")),
    ),
    configured(
        "PK-08",
        "the listeners read the options Options below 'spark.penstock.pk_undeclared.', which the plugin does not decl",
        "pk_undeclared",
        "Does not declare the options of its listener.",
        "penstock_options = ",
        "options_by_prefix = ",
    ),
    packaged(
        "PK-09",
        "ignores the unknown key spark.penstock.pk_listener.no_such_option",
        "pk_listener",
        "Reads a configuration key that it does not declare.",
        _LISTENER,
    ),
    packaged(
        "PK-10",
        "accepts 'nan'",
        "pk_nan",
        "Accepts every number as an option.",
        reference((" validator=attrs.validators.gt(0),", "")),
    ),
    packaged(
        "PK-10",
        "raised AttributeError",
        "pk_raises",
        "Raises another error than one about options when it is made.",
        reference(("self.options, self", "options.server.no_such_method\n        self.options, self")),
    ),
    packaged(
        "PK-11",
        "repr shows the secret option 'password' of the receiver 'pk_secret'",
        "pk_secret",
        "Has the password in the repr of its options.",
        reference((" repr=False,", "")),
    ),
    packaged(
        "PK-11",
        "'password' is in a log event",
        "pk_logged",
        "Logs the password.",
        reference(
            (
                "        self.options, self",
                "        import logging\n"
                "        logging.getLogger('pk').warning('log in with %s', options.password)\n"
                "        self.options, self",
            )
        ),
    ),
    configured(
        "PK-11",
        "repr shows the secret option 'token' of the configuration 'spark.penstock.pk_shown.'",
        "pk_shown",
        "Has the token of its listener in the repr of its options.",
        " repr=False,",
        "",
    ),
    packaged(
        "PK-15",
        "does not name the options server",
        "pk_readme",
        "Has a README that names none of its options.",
        files=distribution("pk_readme", readme="A receiver."),
    ),
    packaged(
        "PK-16",
        "that of the receiver 'pk_durable' is written receiver.durable there",
        "pk_durable",
        "Has an option with the name of one of the Structured Streaming source.",
        reference(
            (
                "    password: str =",
                '    durable: str = attrs.field(default="", metadata={"help": "name of the consumer"})\n'
                "    password: str =",
            )
        ),
        readme=f"{README[:-1]}, and durable.",
    ),
]
