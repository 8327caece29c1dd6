"""Sessions on a PostgreSQL server: their settings, the lock on the database, the meaning of errors.

The lock is an advisory lock of the session that writes. The server releases it when that session
ends, however it ends. Nothing is ever written without the lock.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import asyncpg
from sqlalchemy.exc import SQLAlchemyError, StatementError

from groupd.storage.log import (
    LogCorrupt,
    LogError,
    LogFenced,
    LogUnavailable,
    LogUncertain,
    StoreNotReady,
    StoreRefused,
)
from groupd.storage.postgres_url import PostgresAddress

SERVER_VERSION_MIN = 130_000
LOCK_TIMEOUT_MS = 3000
"""How long to wait for the lock on the database. It is longer than the server needs to end the
session of a killed owner on the same machine. It also limits the wait for locks on rows: other
nodes of a cluster hold them for a moment, and other programs may."""

SILENCE_S = 5.0
"""How much longer than the server's own limit a statement may take. After that the network is
considered broken."""

LOCK_CLASS = 0x67727064  # "grpd"
"""The class of the advisory lock on a database: PostgreSQL's name for its first number."""

MIGRATION_CLASS = 0x6772706D  # "grpm"
"""The class of the lock under which the nodes of a cluster create or migrate the tables."""


class Session(Protocol):
    """The part of the driver's connection that is used. The driver has no types."""

    async def execute(self, query: str) -> str: ...

    async def fetchrow(self, query: str) -> Mapping[str, Any] | None: ...

    async def fetchval(self, query: str) -> Any: ...

    async def add_listener(self, channel: str, callback: Callable[..., None]) -> None: ...

    def add_termination_listener(self, callback: Callable[[Any], None]) -> None: ...

    def get_server_pid(self) -> int: ...

    def is_closed(self) -> bool: ...

    def terminate(self) -> None: ...


class Holder(NamedTuple):
    """The holder of the lock: the server's process of its session, its name for people, and whether
    it shares the lock with others, as the nodes of a cluster do."""

    server_pid: int
    name: str
    shared: bool = False


# Plans must not depend on statistics, which may be old: queries always read ranges of the indexes
# in order.
_PLANS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_bitmapscan": "off",
    "enable_seqscan": "off",
    "enable_sort": "off",
    "jit": "off",
}
_READING = "SET default_transaction_read_only = on"
# The server notices after 25 s that a machine is gone, and releases its lock.
_KEEPALIVE = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}

# A commit waits for the disk, whatever the server's default is. A stronger setting stays.
_SETTLE = """
    SELECT pg_is_in_recovery() AS standby,
        current_setting('server_version') AS version,
        current_setting('server_version_num')::int AS number,
        current_setting('server_encoding') AS encoding,
        current_schema() AS schema,
        set_config('synchronous_commit', CASE current_setting('synchronous_commit')
            WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false)
"""
_LOCK = f"SELECT pg_advisory_lock({LOCK_CLASS}, hashtext(current_schema()))"
_SHARE = f"SELECT pg_advisory_lock_shared({LOCK_CLASS}, hashtext(current_schema()))"
_HOLDER = f"""
    SELECT pid, a.application_name, a.client_addr, l.mode = 'ShareLock' AS shared
    FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    WHERE l.locktype = 'advisory' AND l.granted AND l.classid = {LOCK_CLASS}
        AND l.objid::bigint = (hashtext(current_schema())::bigint & 4294967295)
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


IDLE_MS, SHARED_IDLE_MS = 60_000, 2000
"""If a session is idle for this long in the middle of a transaction, the server ends it: its
process stands still, or the network is cut, and its locks make others wait. Sessions for reading
always have the longer time: they have no locks, and their results may take long to arrive."""


async def connect(
    address: PostgresAddress,
    *,
    writes: bool,
    statement_timeout_ms: int | None = None,
    shared: bool = False,
) -> Session:
    """Returns a session with groupd's settings. `statement_timeout_ms`: overrides the timeout of
    `address`. `shared`: this is one of several nodes, which must not block each other's rows for
    long. Raises StoreRefused if the server cannot be used as a store, and errors of the driver and
    the system."""
    limit_ms = statement_timeout_ms or address.statement_timeout_ms
    session: Session = await asyncpg.connect(
        address.dsn,
        database=address.database,
        user=address.user,
        password=address.password,
        timeout=address.connect_timeout_s,
        # This limit is for a server that does not answer at all.
        command_timeout=limit_ms / 1000 + (SILENCE_S if statement_timeout_ms is None else 0),
        server_settings={
            "application_name": f"groupd {socket.gethostname()[:40]} {os.getpid()}",
            "statement_timeout": str(limit_ms),
            "lock_timeout": str(min(limit_ms, LOCK_TIMEOUT_MS)),
            "idle_in_transaction_session_timeout": str(
                SHARED_IDLE_MS if shared and writes else IDLE_MS
            ),
            **_KEEPALIVE,
            **_PLANS,
        },
    )
    try:
        _check(address, await session.fetchrow(_SETTLE))
        if not writes:
            # This must not be one of the settings above: with `target_session_attrs=read-write` the
            # driver takes a server whose sessions begin as read-only for a standby.
            await session.execute(_READING)
    except BaseException:
        session.terminate()
        raise
    return session


async def take_lock(session: Session, *, shared: bool = False) -> Holder | None:
    """Takes the lock on the database for as long as the session lives, alone or `shared` with other
    sessions that share it. Returns None, or the holder if the lock is taken."""
    if not shared:
        # A session that waits for the lock blocks sessions that want to share it. The nodes of a
        # running cluster must not wait for a daemon that cannot have the database anyway.
        holder = await _holder(session)
        if holder is not None and holder.shared:
            return holder
    try:
        await session.execute(_SHARE if shared else _LOCK)
    except asyncpg.LockNotAvailableError:
        return await _holder(session) or Holder(0, "somebody who is gone by now")
    return None


async def _holder(session: Session) -> Holder | None:
    row = await session.fetchrow(_HOLDER)
    if row is None:
        return None
    address = row["client_addr"] or "this machine"
    return Holder(row["pid"], f"{row['application_name']} at {address}", row["shared"])


async def end_holder(session: Session, holder: Holder) -> Holder | None:
    """Ends the session of a holder, then calls `take_lock`."""
    await session.execute(f"SELECT pg_terminate_backend({holder.server_pid})")
    return await take_lock(session)


def _check(address: PostgresAddress, server: Mapping[str, Any] | None) -> None:
    assert server is not None
    where = address.where
    if server["number"] < SERVER_VERSION_MIN:
        raise StoreRefused(
            f"{where}: PostgreSQL {server['version']} is too old: groupd needs "
            f"{SERVER_VERSION_MIN // 10_000} or newer"
        )
    if server["standby"]:
        raise StoreRefused(
            f"{where}: the server is a standby, which cannot be written: give the primary's address"
        )
    if server["encoding"] != "UTF8":
        raise StoreRefused(
            f"{where}: the database's encoding is {server['encoding']}: create one with "
            "--encoding UTF8"
        )
    if server["schema"] is None:
        raise StoreRefused(
            f"{where}: the user has no schema: CREATE SCHEMA, or GRANT ALL ON SCHEMA public"
        )


# Errors -----------------------------------------------------------------------------------------

_CORRUPT = ("XX001", "XX002")


_DRIVER = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""The errors of the driver, in addition to those of the system. InternalClientError may mean that
the server has ended the session between two statements: the driver does not expect its message
then."""


class SessionFailed(OSError):
    """The server did not give us a session. `cause`: the driver's error."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


@contextmanager
def session_errors() -> Iterator[None]:
    """Turns errors of the driver into SessionFailed. When a session is made, SQLAlchemy 2.0 passes
    the driver's errors on, and 2.1 wraps them."""
    try:
        yield
    except _DRIVER as error:
        raise SessionFailed(error) from error


def _cause(error: BaseException) -> tuple[BaseException, str]:
    """Returns the error of the driver or the system, and its SQLSTATE ("" if it has none)."""
    if isinstance(error, StatementError) and error.orig is not None:
        # Unwraps the driver's own error: SQLAlchemy's replacement has a class name in its text.
        error = error.orig.__cause__ or error.orig
    if isinstance(error, SessionFailed):
        error = error.cause
    return error, getattr(error, "sqlstate", None) or ""


_LOST = ("08", "57P", "40003")
"""The session was lost or ended by the server, perhaps in the middle of a commit. After any other
SQLSTATE the transaction was rolled back."""


_REFUSED_APPEND = "22012"
"""Division by zero: the statement that appends causes it on purpose, see `storage.postgres`."""

_NOT_READY = ("57P03", "53300")
"""The server is starting, or has no free session."""


class PostgresErrors:
    """See `storage.db_transactions.DatabaseErrors`."""

    failures = (SQLAlchemyError, OSError, *_DRIVER)

    def __init__(self, address: PostgresAddress) -> None:
        self._address = address

    def log_error(self, error: Exception) -> LogError:
        cause, state = _cause(error)
        if state == _REFUSED_APPEND:
            return LogFenced([])
        kind: type[LogError] = LogUnavailable if state else LogUncertain
        if state in _CORRUPT:
            kind = LogCorrupt
        elif state.startswith(_LOST):
            kind = LogUncertain
        return kind(f"{self._address.where}: {_in_our_words(cause, state)}")

    def refusal(self, error: Exception) -> StoreRefused:
        cause, state = _cause(error)
        kind = StoreNotReady if _may_come_up(cause, state) else StoreRefused
        return kind(f"{self._address.where}: {_mend(cause, state, self._address.database)}")


def _may_come_up(cause: BaseException, state: str) -> bool:
    """Whether another attempt may reach the server although nothing was mended."""
    if state:
        return state in _NOT_READY or state.startswith(_LOST)
    # If the server has no TLS, the driver raises an error without a class of its own.
    about_tls = isinstance(cause, ssl.SSLError) or "rejected SSL" in str(cause)
    # InternalClientError: none of several servers is a primary.
    return not about_tls and isinstance(cause, OSError | asyncpg.InternalClientError)


def _in_our_words(cause: BaseException, state: str) -> str:
    """Describes the error without the driver's text, which may be about its internals."""
    what = "the connection has failed"
    if isinstance(cause, TimeoutError):
        what = "no answer in time"
    elif state in _CORRUPT:
        what = "the database is damaged"
    elif state.startswith(_LOST):
        what = "the server has ended the session"
    elif state:
        what = "the server has refused"
    return f"{what} ({type(cause).__name__}{f', SQLSTATE {state}' if state else ''})"


def _line(cause: BaseException) -> str:
    """Returns the text of the server or the system, as one line."""
    if isinstance(cause, TimeoutError):
        return "no answer in time"
    told = not isinstance(cause, asyncpg.InternalClientError)
    return (str(cause).partition("\n")[0] if told else "") or type(cause).__name__


def _mend(cause: BaseException, state: str, database: str) -> str:
    line = _line(cause)
    if state in ("28P01", "28000"):
        return f"{line}: mend the user and password in the store URL, or PGUSER and PGPASSWORD"
    if state == "3D000":
        return f"{line}: create it (createdb {database}) or mend the name in the store URL"
    if state == "42501":
        return (
            f"{line}: let the user create tables (ALTER DATABASE {database} OWNER TO ..., or "
            "GRANT ALL ON SCHEMA public TO ...)"
        )
    if state == "25006":
        return f"{line}: give the address of a server that can be written"
    if state in _NOT_READY:
        return f"not ready ({line}): try again in a moment"
    if state in _CORRUPT:
        return f"damaged ({line}): restore the database from a copy"
    if state:
        return f"cannot be used ({line}, SQLSTATE {state}): mend it or choose another database"
    return f"cannot be reached ({line}): start PostgreSQL, or mend the store URL"
