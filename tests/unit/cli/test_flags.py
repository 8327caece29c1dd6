"""Flags that several commands have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from groupd.coordinator.cli.app import app_of


def commands(command: Any) -> Iterator[Any]:
    for one in getattr(command, "commands", {}).values():
        yield one
        yield from commands(one)


def test_the_address_of_a_cluster_has_the_same_names_everywhere() -> None:
    found = {
        command.name: set(flag.opts)
        for command in commands(typer.main.get_command(app_of()))
        for flag in command.params
        if flag.name.startswith("bootstrap")
    }
    assert {"list", "add", "remove", "offsets", "history", "restore", "consume"} <= set(found)
    assert set(map(frozenset, found.values())) == {frozenset({"--bootstrap", "--bootstrap-server"})}


def test_the_format_has_the_same_names_everywhere() -> None:
    found = {
        command.name: set(flag.opts)
        for command in commands(typer.main.get_command(app_of()))
        for flag in command.params
        if "--format" in flag.opts
    }
    assert {"list", "describe", "why", "events", "restore", "reset", "set", "dump"} <= set(found)
    assert set(map(frozenset, found.values())) == {frozenset({"--format", "--output", "-o"})}
