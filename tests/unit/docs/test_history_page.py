"""docs/history.md: its commands exist, and what it says of kinds and actors is complete."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from groupd.coordinator.cli.groups.command import app
from groupd.coordinator.core.group_type import LoggedEventKind
from groupd.coordinator.history.changes import Actor, ChangeKind
from groupd.coordinator.moves.plan import MoveAction

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "history.md").read_text()
COMMANDS = re.findall(r"^\$ groupd groups (.+)$", PAGE, flags=re.MULTILINE)


@pytest.mark.parametrize("line", COMMANDS)
def test_every_example_is_a_command(line: str) -> None:
    name, *arguments = shlex.split(line)
    group: Any = typer.main.get_command(app)
    context = group.commands[name].make_context(name, arguments)
    assert context.params["group"] in ("billing", "parcels")


def test_there_are_examples_of_every_command_about_the_past() -> None:
    assert {line.split()[0] for line in COMMANDS} == {"offsets", "history", "restore", "reset"}


@pytest.mark.parametrize("kind", [ChangeKind, Actor, LoggedEventKind, MoveAction])
def test_every_word_in_the_output_is_explained(kind: Any) -> None:
    assert [word.value for word in kind if f"`{word.value}`" not in PAGE] == []
