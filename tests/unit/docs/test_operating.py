"""docs/operating.md: the commands that it shows exist, and what they print fits 120 columns."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from groupd.coordinator.cli.app import app_of
from groupd.coordinator.cli.groups.command import app
from groupd.coordinator.cli.tables import WIDTH

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = (DOCS / "operating.md").read_text()
INCIDENTS = 3
PICTURE_BYTES_MAX = 150_000
BLOCKS = [block for block in re.findall(r"```\n(.*?)```", PAGE, re.DOTALL) if "$ groupd" in block]
COMMANDS = re.findall(r"^\$ groupd groups (.+)$", PAGE, flags=re.MULTILINE)
OTHERS = re.findall(r"^\$ groupd (topics|configs) (.+)$", PAGE, flags=re.MULTILINE)


@pytest.mark.parametrize("line", COMMANDS)
def test_every_example_is_a_command(line: str) -> None:
    name, *arguments = shlex.split(line)
    group: Any = typer.main.get_command(app)
    context = group.commands[name].make_context(name, list(arguments))
    named = bool(arguments) and not arguments[0].startswith("-")
    assert context.params.get("group") == (arguments[0] if named else None)


@pytest.mark.parametrize(("group", "line"), OTHERS)
def test_every_example_about_topics_and_settings_is_a_command(group: str, line: str) -> None:
    name, *arguments = shlex.split(line)
    command: Any = typer.main.get_command(app_of())
    context = command.commands[group].commands[name].make_context(name, arguments)
    assert "orders" in (context.params.get("name"), *context.params.get("topics", ()))


def test_what_is_shown_covers_the_commands_of_a_running_daemon_and_fits() -> None:
    shown = {line.split()[0] for line in COMMANDS}
    assert shown == {"list", "describe", "events", "why", "history", "restore"}
    assert max(len(line) for block in BLOCKS for line in block.splitlines()) <= WIDTH


def test_each_incident_has_a_picture_the_commands_and_the_paths() -> None:
    part = PAGE.split("\n## On call\n")[1].split("\n## ")[0]
    incidents = [one for one in part.split("\n### ") if "](images/" in one]
    assert len(incidents) == INCIDENTS
    for number, told in enumerate(incidents, 1):
        assert f"](images/incident-{number}.png)" in told
        picture = DOCS / "images" / f"incident-{number}.png"
        assert picture.stat().st_size < PICTURE_BYTES_MAX
        assert "\nBy command" in told
        assert "\nBy path: " in told
        assert "$ groupd groups" in told
        assert "$ curl -s localhost:9644/groups/" in told
