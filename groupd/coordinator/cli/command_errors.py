"""How commands end after an error, and print remarks."""

from __future__ import annotations

import sys
from typing import NoReturn

import typer

EXIT_FAILED = 1


def fail(reason: str) -> NoReturn:
    """Prints one line on stderr and ends the command with exit code 1."""
    print("groupd: " + " ".join(reason.split()), file=sys.stderr)
    raise typer.Exit(EXIT_FAILED)


def note(text: str) -> None:
    """Prints a remark for people on stderr."""
    print(f"groupd: {text}", file=sys.stderr)
