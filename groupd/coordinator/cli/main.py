"""Entry point of `groupd`: subcommands, and errors as one line with exit code 2."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from groupd.coordinator.cli import stop_signals
from groupd.coordinator.cli.parse import UsageError

EXIT_USAGE = 2


def main(args: list[str] | None = None) -> None:
    """Runs the command line; never returns."""
    words = sys.argv[1:] if args is None else args
    if words[:1] == ["serve"]:
        # The imports below take a while, and signals must be caught from the beginning.
        stop_signals.catch()
    try:
        if words[:1] == ["serve"] and _served(words[1:]):
            sys.exit(0)
        _run(words)
    except UsageError as error:
        _usage(str(error))
    except KeyboardInterrupt:
        sys.exit(130)


def _served(words: Sequence[str]) -> bool:
    """Runs `groupd serve`. Returns False if typer has to read the flags."""
    from groupd.coordinator.cli.serve_flags import read_flags

    flags = read_flags(words)
    if flags is None:
        return False
    # The objects that are made during the start live as long as the process. `serve` excludes them
    # from garbage collection after the start. A collection before that would find no garbage.
    gc.disable()
    from groupd.coordinator.cli.serve import serve

    serve(flags)
    return True


def _run(words: list[str]) -> NoReturn:
    # Imported here, because a daemon does not need typer to start.
    import typer

    from groupd.coordinator.cli.app import app_of

    # typer has its own copy of click and exports only this subclass of click's usage error.
    usage_error: Any = typer.BadParameter.__base__
    command = typer.main.get_command(app_of(*words[:1]))
    try:
        result = command.main(words, prog_name="groupd", standalone_mode=False)
    except usage_error as error:
        where = getattr(error, "ctx", None)
        hint = f" (see `{where.command_path} --help`)" if where is not None else ""
        _usage(f"{error.format_message()}{hint}")
    except typer.Abort:
        sys.exit(130)
    sys.exit(result if isinstance(result, int) else 0)


def _usage(text: str) -> NoReturn:
    print("groupd: " + " ".join(text.split()), file=sys.stderr)
    sys.exit(EXIT_USAGE)
