"""The logs that are read: one a size, generated once, in the forms that the ways need."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

RECORDS_A_GROUP = 20_000
_UNFINISHED = ".unfinished"


@dataclass(frozen=True, slots=True)
class Logs:
    """One log in its forms."""

    directory: Path

    @property
    def segments(self) -> Path:
        return self.directory / "segments"

    @property
    def daemon(self) -> Path:
        """The folder below which `DaemonProcess` keeps its data."""
        return self.directory / "daemon"

    @property
    def store(self) -> Path:
        return self.daemon / "data"


def generated(directory: Path, records: int) -> Logs:
    """The logs of a size. A generation that was broken off is begun again."""
    logs = Logs(directory / str(records))
    groups = max(20, records // RECORDS_A_GROUP)
    for option, place in (("--segments", logs.segments), ("--data-dir", logs.store)):
        if place.exists():
            continue
        unfinished = place.with_name(place.name + _UNFINISHED)
        shutil.rmtree(unfinished, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "groupd.pipeline", "generate", "--until", "now"]
        command += ["--records", str(records), "--groups", str(groups), option, str(unfinished)]
        print(f"{place}: ", end="", flush=True)
        subprocess.run(command, check=True)
        unfinished.rename(place)
    return logs
