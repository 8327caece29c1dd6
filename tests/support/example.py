"""Runs a project under docs/examples as its reader would: copies it, does what its README says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"
BUILT = shutil.ignore_patterns("target", "node_modules", ".venv", "__pycache__", ".pytest_cache")
LIMIT_S = 540
PLUGIN = "[pytest11]\ngroupd = groupd.testing.pytest_plugin\n"


def block(name: str, marker: str) -> str:
    """The commands below `<!-- marker -->` in the README of an example."""
    page = (EXAMPLES / name / "README.md").read_text()
    (found,) = re.findall(rf"<!-- {marker} -->\n```sh\n(.*?)```\n", page, re.DOTALL)
    assert isinstance(found, str)
    return found


def run_as_its_readme_says(name: str, tool: str, directory: Path) -> str:
    """What a copy of the example prints; its commands must succeed.

    `tool`: the program without which it cannot be run. What the reader sets up, groupd in an
    environment `.venv`, is the environment of this test run; nothing is fetched from anywhere.
    """
    assert shutil.which(tool) is not None, f"no {tool} on PATH: run `make test-setup`"
    copy = directory / name
    shutil.copytree(EXAMPLES / name, copy, ignore=BUILT)
    (copy / ".venv").symlink_to(sys.prefix)
    offline = {"GOPROXY": "off", "npm_config_offline": "true", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block(name, "run")],
        cwd=copy,
        env={**_without_pytest(), **offline, **_with_groupd(directory)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def _without_pytest() -> dict[str, str]:
    """The environment without this run's pytest options, which are not the reader's."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}


def _with_groupd(directory: Path) -> dict[str, str]:
    """PATH with groupd on it. Where it is not installed, this checkout is made to look so."""
    path = os.environ["PATH"]
    try:
        distribution("groupd")
    except PackageNotFoundError:
        bin_directory, packages = directory / "bin", directory / "packages"
        information = packages / "groupd-0.dist-info"
        information.mkdir(parents=True)
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: groupd\nVersion: 0\n")
        (information / "entry_points.txt").write_text(PLUGIN)
        bin_directory.mkdir()
        program = bin_directory / "groupd"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m groupd "$@"\n')
        program.chmod(0o755)
        return {"PATH": f"{bin_directory}:{path}", "PYTHONPATH": f"{packages}:{ROOT}"}
    return {"PATH": f"{Path(sys.prefix) / 'bin'}:{path}"}
