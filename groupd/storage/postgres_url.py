"""Translates a store URL of PostgreSQL into the driver's parameters, and a name for messages that
holds no secrets.

`postgresql+asyncpg://user:password@host:port/database?option=value`; the user, the password and TLS
may also come from PGUSER, PGPASSWORD, a passfile and so on, as with PostgreSQL's own tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from msgspec import Struct
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from groupd.storage.log import StoreRefused

EXAMPLE = "postgresql+asyncpg://USER:PASSWORD@HOST:5432/DATABASE"

DRIVER_OPTIONS = (
    "host",
    "port",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "passfile",
    "target_session_attrs",
)
"""Options that are passed on to the driver. They mean the same as in PostgreSQL's own tools."""

NUMBERS = {"connect_timeout": 10, "statement_timeout": 10_000, "pool_size": 4}
"""groupd's own options with their defaults, in s, ms, and number of connections for reading."""


class PostgresAddress(Struct, frozen=True):
    """`where` names the database in messages. `dsn` holds the rest: hosts, TLS. `host`: the first
    server, empty if the URL does not name one and the driver's default counts."""

    where: str
    host: str
    database: str
    dsn: str
    user: str | None
    password: str | None
    connect_timeout_s: int
    statement_timeout_ms: int
    readers: int


def parse_url(text: str) -> PostgresAddress:
    """Parses the URL. Raises StoreRefused, whose text has no part of the URL that may be secret."""
    if text.count("@") > 1:
        raise _refused("has more than one @: write those of the user and password as %40")
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise _refused(f"cannot be understood: write {EXAMPLE}") from None
    if not url.database:
        raise _refused(f"names no database: write {EXAMPLE}")
    options = {
        name: ",".join(value) if isinstance(value, tuple) else value
        for name, value in url.query.items()
    }
    if "ssl" in options:
        options.setdefault("sslmode", options.pop("ssl"))
    unknown = sorted(set(options) - {*DRIVER_OPTIONS, *NUMBERS})
    if unknown:
        known = ", ".join(sorted({*DRIVER_OPTIONS, *NUMBERS}))
        raise _refused(f"has options that are not known ({', '.join(unknown)}): use {known}")
    if url.host:
        options["host"] = f"[{url.host}]" if ":" in url.host else url.host
    if url.port:
        options["port"] = str(url.port)
    return PostgresAddress(
        where=_where(url, options),
        host=url.host or options.get("host", "").split(",")[0].partition(":")[0],
        database=url.database,
        dsn=f"postgresql://?{_query(options)}",
        user=url.username or None,
        password=url.password or None,
        connect_timeout_s=_number(options, "connect_timeout"),
        statement_timeout_ms=_number(options, "statement_timeout"),
        readers=_number(options, "pool_size"),
    )


def _query(options: Mapping[str, str]) -> str:
    return urlencode({name: options[name] for name in DRIVER_OPTIONS if name in options})


def _where(url: URL, options: Mapping[str, str]) -> str:
    host = options.get("host", "")
    port = f":{options['port']}" if "port" in options else ""
    return f"postgresql://{host}{port}/{url.database}"


def _number(options: Mapping[str, str], name: str) -> int:
    value = options.get(name, str(NUMBERS[name]))
    if not (value.isascii() and value.isdigit() and 0 < int(value) < 1 << 31):
        raise _refused(f"has {name}={value}: write a whole number above 0")
    return int(value)


def _refused(what: str) -> StoreRefused:
    return StoreRefused(f"the PostgreSQL store URL {what}")
