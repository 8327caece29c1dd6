"""What errors of PostgreSQL, its driver and the network mean to whoever reads them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
from sqlalchemy.exc import DBAPIError

from groupd.storage.log import LogCorrupt, LogError, LogUnavailable, StoreRefused
from groupd.storage.postgres_url import PostgresAddress

_CORRUPT = ("XX001", "XX002")


class SessionFailed(OSError):
    """The server did not give a session. `sqlstate`: its code, None if the driver gave up."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.sqlstate: str | None = getattr(error, "sqlstate", None)


@contextmanager
def session_errors() -> Iterator[None]:
    """Raises SessionFailed for the driver's errors. SQLAlchemy 2.0 passes those through when a
    session is made, 2.1 wraps them."""
    try:
        yield
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise SessionFailed(error) from error


def reason(error: BaseException) -> tuple[str, str]:
    """One line and the SQLSTATE ("": not from the server)."""
    cause: BaseException = error
    if isinstance(error, DBAPIError) and error.orig is not None:
        # The driver's own error; SQLAlchemy's stand-in has its class in the text.
        cause = error.orig.__cause__ or error.orig
    line = str(cause).partition("\n")[0]
    if isinstance(cause, TimeoutError):
        line = line or "no answer in time"
    return line or type(cause).__name__, getattr(cause, "sqlstate", None) or ""


class PostgresErrors:
    """See `storage.transactions.DatabaseErrors`."""

    def __init__(self, address: PostgresAddress) -> None:
        self._address = address

    def log_error(self, error: Exception) -> LogError:
        line, state = reason(error)
        kind = LogCorrupt if state in _CORRUPT else LogUnavailable
        return kind(f"{self._address.where}: {line}")

    def refusal(self, error: Exception) -> StoreRefused:
        line, state = reason(error)
        return StoreRefused(f"{self._address.where}: {_what(line, state, self._address.database)}")


def _what(line: str, state: str, database: str) -> str:
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
    if state in ("57P03", "53300"):
        return f"not ready ({line}): try again in a moment"
    if state in _CORRUPT:
        return f"damaged ({line}): restore the database from a copy"
    if state:
        return f"cannot be used ({line}, SQLSTATE {state}): mend it or choose another database"
    return f"cannot be reached ({line}): start PostgreSQL, or mend the store URL"
