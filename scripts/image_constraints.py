"""Usage: image_constraints.py. Run it after a change of constraints.txt.

Writes constraints-image.txt: what the image installs beside groupd itself, as pinned in
constraints.txt, with the checksums of the wheels for Linux on x86_64 and aarch64. pip resolves it
and tells the checksums, as the index has them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "constraints-image.txt"
PYTHON = "3.11"
ARCHITECTURES = ("x86_64", "aarch64")
GLIBC = range(36, 16, -1)
"""Debian bookworm has 2.36; pip takes the first platform that a wheel fits."""

HEAD = """\
# Written by scripts/image_constraints.py: the pins of constraints.txt that the image needs, with
# the checksums of the wheels for Python 3.11 on Linux, x86_64 and aarch64 (see Dockerfile).
"""


def requirements() -> list[str]:
    """What groupd needs with PostgreSQL, OAUTHBEARER and OpenTelemetry, and what builds it."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = settings["project"]
    extras = project["optional-dependencies"]
    used = [one for extra in ("postgres", "oauthbearer", "otel") for one in extras[extra]]
    return [*project["dependencies"], *used, *settings["build-system"]["requires"]]


def resolved(architecture: str) -> list[dict[str, Any]]:
    """What pip would install on that machine."""
    platforms = [f"manylinux_2_{minor}_{architecture}" for minor in GLIBC]
    platforms += [f"manylinux2014_{architecture}", f"linux_{architecture}"]
    # A directory of wheels of this machine may hold some that were built here.
    environment = {key: value for key, value in os.environ.items() if key != "PIP_FIND_LINKS"}
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory, "report.json")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run"]
        command += ["--ignore-installed", "--target", directory, "--report", str(report)]
        command += ["--only-binary", ":all:", "--implementation", "cp", "--python-version", PYTHON]
        command += [part for name in platforms for part in ("--platform", name)]
        command += ["--constraint", str(ROOT / "constraints.txt"), *requirements()]
        subprocess.run(command, check=True, env=environment, cwd=directory)
        found: list[dict[str, Any]] = json.loads(report.read_text())["install"]
    return found


def main() -> None:
    hashes: dict[str, set[str]] = {}
    for architecture in ARCHITECTURES:
        for package in resolved(architecture):
            about, archive = package["metadata"], package["download_info"]["archive_info"]
            pin = f"{about['name'].lower().replace('_', '-')}=={about['version']}"
            hashes.setdefault(pin, set()).add(archive["hashes"]["sha256"])
    lines = [
        " \\\n".join([pin, *(f"    --hash=sha256:{value}" for value in sorted(hashes[pin]))])
        for pin in sorted(hashes)
    ]
    TARGET.write_text(HEAD + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
