"""The distributions of this tree, as `make dist` makes them, and what is in them."""

from __future__ import annotations

import email
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "groupd"
"""The one package at the top level of an installation."""
FOLDERS = ("coordinator", "storage", "protocol", "pipeline")
"""The packages below `groupd/` to which links lead at the top of the tree."""


def checkout(target: Path) -> list[str]:
    """A copy of the project without leftovers. The paths of its files and links."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    # A file that was removed since the last commit is still listed.
    paths = [path for path in listed.stdout.split("\0") if path and (ROOT / path).exists()]
    for path in paths:
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, target / path, follow_symlinks=False)
    return paths


def run(*command: str, cwd: Path) -> str:
    """What the command prints; it must succeed. It knows nothing of this test run."""
    ours = ("PYTEST", "PYTHONPATH")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    done = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-3000:]
    return done.stdout


class Distributions:
    """What `make dist` leaves in dist/. `wheel`, `source`: the names of their files; `tracked`: the
    files of the tree without the links; `path`: the wheel itself; `tree`: where they are
    made."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self.tracked = set(checkout(tree)).difference(FOLDERS)
        run("scripts/dist.sh", sys.executable, "dist", cwd=tree)
        (self.path,) = (tree / "dist").glob("*.whl")
        (archive,) = (tree / "dist").glob("*.tar.gz")
        with zipfile.ZipFile(self.path) as opened:
            self.wheel = set(opened.namelist())
            (metadata,) = (name for name in self.wheel if name.endswith("/METADATA"))
            self.metadata: Message = email.message_from_bytes(opened.read(metadata))
        with tarfile.open(archive) as packed:
            files = [member.name for member in packed.getmembers() if member.isfile()]
        self.source = {name.partition("/")[2] for name in files}
