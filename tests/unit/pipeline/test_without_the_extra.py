"""`groupd-pipeline` where groupd is installed without the extra `pipeline`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.toolchain import ROOT

_BLOCKED = """
import sys
from groupd.pipeline.cli import OF_THE_EXTRA, main

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in OF_THE_EXTRA:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
main()
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["offsets", "--segments", ".", "--out", "o"],
        ["jobs"],
        ["report", "--segments", ".", "--out", "o.html"],
    ],
)
def test_it_names_the_extra_in_one_line(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _BLOCKED, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("groupd-pipeline: No module named 'py")
    assert done.stderr.endswith(": the extra is missing: pip install 'groupd[pipeline]'\n")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
