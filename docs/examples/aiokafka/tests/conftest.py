"""What the tests are given; the fixture `groupd` came with groupd."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]


@pytest.fixture
def start_process(groupd) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts `python -m billing`; what still runs at the end is killed."""
    command = [sys.executable, "-m", "billing", groupd.bootstrap_servers]
    with ExitStack() as stack:

        def start() -> subprocess.Popen[bytes]:
            process = stack.enter_context(subprocess.Popen(command, cwd=PROJECT))
            stack.callback(process.kill)
            return process

        yield start
