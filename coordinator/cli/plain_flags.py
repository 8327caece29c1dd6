"""Reads the command line of `groupd serve` without typer, because loading typer would take a third
of the daemon's start.

It reads only simple command lines: known flags with good values, with each flag and each value as a
word of its own. Everything else (`--help`, mistakes, `--flag=value`) is left to typer. What is read
here is what typer would have read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from groupd.coordinator.cli.parse import directory

WORKERS_MAX = 64
STORE_VARIABLE = "GROUPD_STORE"

_VALUES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "--listen": ("listen", str),
    "--advertised": ("advertised", str),
    "--admin": ("admin", str),
    "--data-dir": ("data_dir", directory),
    "--store": ("store", str),
    "--config": ("config", Path),
    "--profile": ("profile", str),
    "--record": ("record", Path),
    "--log-format": ("log_format", str),
    "--log-level": ("log_level", str),
}
_LISTS = {"--topic": "topics", "--set": "sets"}
_SWITCHES = {
    "--control": "control",
    "--control-anywhere": "control_anywhere",
    "--until-stdin-ends": "until_stdin_ends",
}


def serve_arguments(words: Sequence[str]) -> dict[str, Any] | None:
    """The arguments for `serve.serve`, from the flags that are given; None = typer must read them.
    Raises UsageError."""
    found: dict[str, Any] = {}
    store = os.environ.get(STORE_VARIABLE)
    if store:
        found["store"] = store
    rest = iter(words)
    for flag in rest:
        if flag in _SWITCHES:
            found[_SWITCHES[flag]] = True
            continue
        value = next(rest, "")
        if not value or value.startswith("-"):
            return None
        if flag in _LISTS:
            found.setdefault(_LISTS[flag], []).append(value)
        elif flag in _VALUES:
            name, read = _VALUES[flag]
            found[name] = read(value)
        elif flag == "--workers" and value in _WORKERS:
            found["workers"] = int(value)
        else:
            return None
    return found


_WORKERS = frozenset(map(str, range(1, WORKERS_MAX + 1)))
