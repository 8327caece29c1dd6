"""Shared by the commands of `groupd log`: flags for the place of a log, and how errors are
shown."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from groupd.coordinator.cli.command_errors import note
from groupd.coordinator.cli.parse import DEFAULT_DATA_DIR, UsageError, directory

T = TypeVar("T")

PathArgument = Annotated[
    Path | None,
    typer.Argument(
        help="Segment file, partition directory or Kafka log directory, instead of a store.",
        show_default=False,
    ),
]
DataDirOption = Annotated[
    Path | None,
    typer.Option(
        parser=directory,
        metavar="DIR",
        help="Data directory of the daemon; default ./groupd-data.",
    ),
]
StoreOption = Annotated[
    str | None, typer.Option(help="Store URL, instead of the data directory's SQLite file.")
]
GroupsOption = Annotated[
    list[str] | None, typer.Option("--group", help="Only this group; repeatable.")
]


def where(data_dir: Path | None, store: str | None, path: Path | None = None) -> Path:
    """Returns the data directory that the flags name. Raises UsageError if they name two places."""
    named = [
        flag
        for flag, value in (("PATH", path), ("--data-dir", data_dir), ("--store", store))
        if value is not None
    ]
    if len(named) > 1:
        raise UsageError(f"{' and '.join(named)}: name one place")
    return data_dir or DEFAULT_DATA_DIR


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs `work` to its end. An error that stops it is raised as a UsageError of one line."""
    import asyncio

    from groupd.coordinator.logtools.entries import LogToolError
    from groupd.storage.log import LogError

    try:
        return asyncio.run(work)
    except (LogToolError, LogError) as error:
        raise UsageError(str(error)) from None
    except BrokenPipeError:
        raise  # the command handles it
    except OSError as error:
        raise UsageError(f"{error.filename or 'system'}: {error.strerror}") from None


@asynccontextmanager
async def reading(store: str | None, data_dir: Path) -> AsyncIterator[Any]:
    """Yields a started `StoreReader`. Prints a note on stderr if a daemon uses the same store."""
    from groupd.storage.open import create_reader, database_file
    from groupd.storage.sqlite_files import holder

    reader = create_reader(store, data_dir)
    await reader.start()
    try:
        file = database_file(store, data_dir)
        process = None if file is None else holder(file)
        if process is not None:
            note(
                f"reading beside the running daemon (process {process}), without a lock; "
                "what it writes meanwhile may be missing"
            )
        yield reader
    finally:
        await reader.close()
