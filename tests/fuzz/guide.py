"""Runs the guided part (`tests.fuzz.guided`) in a process of its own, and reads what it says."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import msgspec

_STATUS = re.compile(r"cov: (\d+) ft: (\d+) corp: (\d+)/")
_RUNS = re.compile(r"^Done (\d+) runs", re.MULTILINE)
LATE_S = 400.0
LONGEST = 4096
"""The most bytes of a stream."""


class Reached(msgspec.Struct):
    """`covered`: how many places in groupd's code were reached; `features`: those, and how often
    each was; `streams`: how many reach them all; `wrong`: how the run failed."""

    runs: int = 0
    covered: int = 0
    features: int = 0
    streams: int = 0
    wrong: list[str] = []


def available() -> bool:
    """Whether atheris is installed: it is made for some versions of Python only."""
    return importlib.util.find_spec("atheris") is not None


def guide(seconds: float, directory: Path) -> tuple[Reached, list[bytes]]:
    """Runs the guided part that long. Returns what was reached, and the streams that libFuzzer has
    kept."""
    folder, log = directory / "guided", directory / "guided.log"
    command = [sys.executable, "-m", "tests.fuzz.guided", f"-max_total_time={int(seconds)}"]
    command += [f"-max_len={LONGEST}", f"-artifact_prefix={directory}/crash-", str(folder)]
    with log.open("w") as output:
        code = subprocess.run(
            ["nice", *command], stdout=output, stderr=output, timeout=seconds + LATE_S, check=False
        ).returncode
    said = log.read_text(errors="replace")
    reached = Reached()
    if code:
        reached.wrong.append(f"guided: exit code {code}: {said[-2000:]}")
    if found := _STATUS.findall(said):
        reached.covered, reached.features, reached.streams = map(int, found[-1])
    if runs := _RUNS.search(said):
        reached.runs = int(runs.group(1))
    elif not code:
        reached.wrong.append(f"guided: no last line: {said[-500:]}")
    return reached, [one.read_bytes() for one in sorted(folder.iterdir())]
