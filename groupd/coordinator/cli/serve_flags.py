"""The flags of `groupd serve`: `ServeFlags` is their only list.

There are two ways to read them. `read_flags` reads a command line that needs no explanation: known
flags with valid values, each flag and each value as a word of its own. Everything else (`--help`,
mistakes, `--flag=value`) is read by typer, whose import would take a third of the daemon's start.
`typer_command` describes the same flags to typer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from msgspec import Struct, structs

from groupd.coordinator.cli.parse import DEFAULT_DATA_DIR, directory

WORKERS_MAX = 64
DEFAULT_LISTEN = "127.0.0.1:9092"
DEFAULT_ADMIN = "127.0.0.1:9644"


class Flag(Struct, frozen=True):
    """The properties of a flag besides its type and default. `name`: if it differs from the field's
    name with dashes. `read`: makes the value from text; may raise UsageError. `low`, `high`: the
    inclusive bounds of a number. `variable`: an environment variable that is used if the flag is
    absent."""

    help: str
    name: str = ""
    read: Callable[[str], Any] | None = None
    low: int | None = None
    high: int | None = None
    metavar: str | None = None
    variable: str | None = None


class ServeFlags(Struct, frozen=True, kw_only=True):
    """The values of the flags. A `bool` is a flag without a value, a `tuple` a repeatable flag."""

    listen: Annotated[str, Flag("Kafka address, HOST:PORT; port 0 takes any free port.")] = (
        DEFAULT_LISTEN
    )
    advertised: Annotated[
        str | None, Flag("Advertised address: where clients connect to, HOST:PORT.")
    ] = None
    admin: Annotated[
        str, Flag("Admin HTTP address (/healthz /readyz /groups /metrics /config).")
    ] = DEFAULT_ADMIN
    data_dir: Annotated[
        Path, Flag("Where the embedded store lives.", read=directory, metavar="DIR")
    ] = DEFAULT_DATA_DIR
    store: Annotated[
        str | None,
        Flag(
            "Store URL: postgresql+asyncpg://..., sqlite:///... or memory://; "
            "default SQLite in the data directory.",
            variable="GROUPD_STORE",
        ),
    ] = None
    topics: Annotated[
        tuple[str, ...],
        Flag("NAME:PARTITIONS, created at start; repeatable.", name="--topic"),
    ] = ()
    config: Annotated[
        Path | None, Flag("Config file: TOML, or Kafka-style .properties.", read=Path)
    ] = None
    sets: Annotated[
        tuple[str, ...], Flag("KEY=VALUE with Kafka's config names; repeatable.", name="--set")
    ] = ()
    profile: Annotated[str, Flag("default or test; below --set.")] = "default"
    cluster: Annotated[
        bool,
        Flag(
            "Be a node of the cluster of all nodes that use the same PostgreSQL --store. Without "
            "--listen it listens where this machine reaches the database."
        ),
    ] = False
    workers: Annotated[
        int,
        Flag(
            "Run so many nodes of a cluster on this machine, for more than one core: each on ports "
            "of its own above --listen and --admin. Above 1 it needs --store postgresql+asyncpg://...",
            low=1,
            high=WORKERS_MAX,
        ),
    ] = 1
    control: Annotated[
        bool,
        Flag(
            "Testing: faults, time and waits under /control of the admin port, which must be on "
            "a loopback address; the store is in memory."
        ),
    ] = False
    control_anywhere: Annotated[
        bool,
        Flag("Allow --control on an address that others reach: they can do anything."),
    ] = False
    control_security: Annotated[
        str,
        Flag(
            "With --control, how clients log in: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL; "
            "certificates are made on the fly, users come from /control/users.",
            metavar="PROTOCOL",
        ),
    ] = "PLAINTEXT"
    record: Annotated[
        Path | None,
        Flag(
            "Write every request, reply, timer and fault to a new file, for `groupd replay`.",
            read=Path,
            metavar="FILE",
        ),
    ] = None
    record_max: Annotated[int, Flag("Size at which the recording ends.", low=1, metavar="MIB")] = (
        1024
    )
    until_stdin_ends: Annotated[
        bool,
        Flag(
            "Stop when stdin ends, so that the daemon does not outlive the program that started "
            "it with a pipe there, however that ends."
        ),
    ] = False
    log_format: Annotated[str, Flag("text or json.")] = "text"
    log_level: Annotated[str, Flag("debug, info, warning or error.")] = "info"


class _FlagField(Struct, frozen=True):
    """A field of `ServeFlags`, and the `Flag` of its annotation."""

    name: str
    kind: Any
    default: Any
    flag: Flag

    @property
    def is_switch(self) -> bool:
        return self.kind is bool

    @property
    def is_list(self) -> bool:
        return get_origin(self.kind) is tuple

    def read(self, text: str) -> Any:
        """Returns the value, None for a wrong number, which typer explains. Raises UsageError."""
        if self.kind is not int:
            return text if self.flag.read is None else self.flag.read(text)
        if not (text.isascii() and text.isdecimal()):
            return None
        number, low, high = int(text), self.flag.low, self.flag.high
        return number if (low or 0) <= number and (high is None or number <= high) else None


def flags() -> Mapping[str, _FlagField]:
    """Returns the flags by name on the command line, in the order of `--help`."""
    found = {}
    for field in structs.fields(ServeFlags):
        kind, flag = get_args(field.type)
        name = flag.name or f"--{field.name.replace('_', '-')}"
        found[name] = _FlagField(field.name, kind, field.default, flag)
    return found


def read_flags(words: Sequence[str]) -> ServeFlags | None:
    """Reads the flags. Returns None if typer has to read the words. Raises UsageError."""
    known = flags()
    values: dict[str, Any] = {
        field.name: os.environ[field.flag.variable]
        for field in known.values()
        if field.flag.variable and os.environ.get(field.flag.variable)
    }
    rest = iter(words)
    for word in rest:
        field = known.get(word)
        if field is None:
            return None
        if field.is_switch:
            values[field.name] = True
            continue
        text = next(rest, "")
        if not text or text.startswith("-") or (value := field.read(text)) is None:
            return None
        values[field.name] = (*values.get(field.name, ()), value) if field.is_list else value
    return ServeFlags(**values)


def words_of(values: ServeFlags) -> list[str]:
    """Returns a command line from which `read_flags` makes these values. Values that are the
    default are left out."""
    words: list[str] = []
    for name, field in flags().items():
        value = getattr(values, field.name)
        if value == field.default:
            continue
        if field.is_switch:
            words.append(name)
        else:
            for one in value if field.is_list else (value,):
                words += [name, str(one)]
    return words


def typer_command(run: Callable[[ServeFlags], None]) -> Callable[..., None]:
    """Returns a function that calls `run`, and from whose parameters typer makes the flags."""
    import typer

    def serve(**values: Any) -> None:
        lists = {name: tuple(value or ()) for name, value in values.items() if name in repeated}
        run(ServeFlags(**{**values, **lists}))

    repeated = {field.name for field in flags().values() if field.is_list}
    serve.__doc__ = run.__doc__
    parameters = []
    for name, field in flags().items():
        flag = field.flag
        option = typer.Option(
            name,
            help=flag.help,
            min=flag.low,
            max=flag.high,
            metavar=flag.metavar,
            envvar=flag.variable,
            # typer parses plain paths by itself, and then has a better word for them in `--help`.
            parser=None if flag.read is Path else flag.read,
        )
        kind, default = (list[str] | None, None) if field.is_list else (field.kind, field.default)
        annotation = Annotated[kind, option]  # type: ignore[valid-type]
        parameters.append(
            Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        )
    serve.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return serve
