"""`groupd log` as its users run it."""

from __future__ import annotations

import subprocess
import sys

from tests.support.daemon import ROOT


def groupd_log(*arguments: str) -> str:
    """What it says on stdout; it must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", "groupd", "log", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done.stdout
