"""docs/operating.md: the commands that it shows exist, and what they print fits 120 columns."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from groupd.coordinator.cli.app import app as everything
from groupd.coordinator.cli.groups.command import app
from groupd.coordinator.cli.groups.tables import WIDTH

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "operating.md").read_text()
BLOCKS = [block for block in re.findall(r"```\n(.*?)```", PAGE, re.DOTALL) if "$ groupd" in block]
COMMANDS = re.findall(r"^\$ groupd groups (.+)$", PAGE, flags=re.MULTILINE)
OTHERS = re.findall(r"^\$ groupd (topics|configs) (.+)$", PAGE, flags=re.MULTILINE)


@pytest.mark.parametrize("line", COMMANDS)
def test_every_example_is_a_command(line: str) -> None:
    name, *arguments = shlex.split(line)
    group: Any = typer.main.get_command(app)
    context = group.commands[name].make_context(name, list(arguments))
    assert context.params.get("group") == (arguments[0] if arguments else None)


@pytest.mark.parametrize(("group", "line"), OTHERS)
def test_every_example_about_topics_and_settings_is_a_command(group: str, line: str) -> None:
    name, *arguments = shlex.split(line)
    command: Any = typer.main.get_command(everything)
    context = command.commands[group].commands[name].make_context(name, arguments)
    assert "orders" in (context.params.get("name"), *context.params.get("topics", ()))


def test_what_is_shown_covers_the_commands_of_a_running_daemon_and_fits() -> None:
    assert {line.split()[0] for line in COMMANDS} == {"list", "describe", "events", "why"}
    assert max(len(line) for block in BLOCKS for line in block.splitlines()) <= WIDTH
