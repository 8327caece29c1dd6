"""docs/operating.md: the commands that it shows exist, and what they print fits 120 columns."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from groupd.coordinator.cli.groups.command import app
from groupd.coordinator.cli.groups.tables import WIDTH

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "operating.md").read_text()
BLOCKS = [block for block in re.findall(r"```\n(.*?)```", PAGE, re.DOTALL) if "$ groupd" in block]
COMMANDS = re.findall(r"^\$ groupd groups (.+)$", PAGE, flags=re.MULTILINE)


@pytest.mark.parametrize("line", COMMANDS)
def test_every_example_is_a_command(line: str) -> None:
    name, *arguments = shlex.split(line)
    group: Any = typer.main.get_command(app)
    context = group.commands[name].make_context(name, list(arguments))
    assert context.params.get("group") == (arguments[0] if arguments else None)


def test_what_is_shown_covers_the_commands_of_a_running_daemon_and_fits() -> None:
    assert {line.split()[0] for line in COMMANDS} == {"list", "describe", "events"}
    assert max(len(line) for block in BLOCKS for line in block.splitlines()) <= WIDTH
