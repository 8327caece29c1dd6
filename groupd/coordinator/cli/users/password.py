"""Where a password comes from: a file, a pipe or a prompt. Never an argument, because every user of
the machine may see the arguments of a process."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path

from groupd.coordinator.cli.errors import UsageError
from groupd.storage.private_files import others_may_read

FLAG = "--password-file"


def read_password(file: Path | None, user: str) -> str:
    """The first line of `file`; without one, of stdin, or what a person types twice if stdin is a
    terminal. Raises UsageError."""
    try:
        if file is not None:
            password = _of_file(file)
        elif sys.stdin.isatty():
            password = _typed(user)
        else:
            password = sys.stdin.readline()
    except UnicodeDecodeError:
        raise UsageError("the password is not UTF-8") from None
    password = password.removesuffix("\n").removesuffix("\r")
    if not password:
        raise UsageError("the password is empty")
    return password


def _of_file(file: Path) -> str:
    try:
        if file.is_file() and others_may_read(file):
            raise UsageError(f"{FLAG} {file}: every user of this machine may read it: chmod 600 it")
        with file.open(encoding="utf-8") as lines:
            return lines.readline()
    except OSError as error:
        raise UsageError(f"{FLAG} {file}: {error.strerror}") from None


def _typed(user: str) -> str:
    password = getpass.getpass(f"Password of {user}: ")
    if getpass.getpass("Once more: ") != password:
        raise UsageError("the two passwords are not the same")
    return password
