"""What an installation asks for: the bounds are those that are tested."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
SETTINGS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT: dict[str, Any] = SETTINGS["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
BUILD: list[str] = SETTINGS["build-system"]["requires"]
INSTALLED = [
    *PROJECT["dependencies"],
    *(one for extra in ("postgres", "oauthbearer", "otel") for one in EXTRAS[extra]),
]


def name_of(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    assert found is not None, requirement
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def pins(path: str) -> dict[str, str]:
    lines = (ROOT / path).read_text().splitlines()
    found = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {name_of(name): version for name, version in found}


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def test_what_clients_send_is_decompressed_without_an_extra() -> None:
    assert "cramjam" in [name_of(requirement) for requirement in PROJECT["dependencies"]]
    assert "codecs" not in EXTRAS


def test_lower_bounds_are_what_make_test_lowest_installs() -> None:
    lowest = pins("constraints-lowest.txt")
    for requirement in INSTALLED:
        bound = re.search(r">=([\d.]+)", requirement)
        assert bound is not None, f"{requirement} has no lower bound"
        assert lowest[name_of(requirement)] == bound[1], requirement


def test_upper_bounds_admit_what_everything_else_is_tested_with() -> None:
    newest = pins("constraints.txt")
    for requirement in INSTALLED:
        bound = re.search(r"<([\d.]+)", requirement)
        if bound is not None:
            assert numbers(newest[name_of(requirement)]) < numbers(bound[1]), requirement


def test_both_orms_can_be_beside_groupd() -> None:
    """SQLAlchemy 2.0 and 2.1 are both in use in the code under test."""
    (bounds,) = (r for r in PROJECT["dependencies"] if name_of(r) == "sqlalchemy")
    assert bounds == "sqlalchemy[asyncio]>=2.0.45"


def test_clients_of_both_runs_are_the_same() -> None:
    newest, lowest = pins("constraints.txt"), pins("constraints-lowest.txt")
    for client in ("aiokafka", "confluent-kafka"):
        assert lowest[client] == newest[client]


def test_every_dependency_of_an_extra_is_pinned() -> None:
    newest = pins("constraints.txt")
    wanted = {name_of(r) for r in [*INSTALLED, *(r for extra in EXTRAS.values() for r in extra)]}
    assert wanted <= newest.keys()


def in_the_image() -> dict[str, tuple[str, list[str]]]:
    """(version, checksums) by name."""
    text = (ROOT / "constraints-image.txt").read_text().replace(" \\\n", " ")
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    pairs = [(pin.split("=="), checksums) for pin, *checksums in lines]
    return {name_of(name): (version, checksums) for (name, version), checksums in pairs}


def test_the_image_installs_what_everything_else_is_tested_with_and_checks_it() -> None:
    newest, image = pins("constraints.txt"), in_the_image()
    assert {name: version for name, (version, _) in image.items()}.items() <= newest.items()
    for name, (_, checksums) in image.items():
        assert checksums, name
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in checksums), name
    # Those with code for a processor have a wheel for each of the two.
    assert all(len(image[name][1]) == 2 for name in ("msgspec", "uvloop", "crc32c", "asyncpg"))


def test_nothing_that_the_image_needs_is_missing() -> None:
    """`pip install --require-hashes` takes nothing else."""
    image = in_the_image()
    todo = [name_of(requirement) for requirement in [*INSTALLED, *BUILD]]
    needed: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in needed:
            needed.add(name)
            requires = distribution(name).requires or ()
            todo += [name_of(one) for one in requires if "extra ==" not in one and here(one)]
    assert image.keys() - {"greenlet"} == needed, "run scripts/image_constraints.py"


def here(requirement: str) -> bool:
    """Whether its marker holds where the image runs."""
    marker = Requirement(requirement).marker
    return marker is None or marker.evaluate()


def test_the_image_is_built_with_them() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert "--require-hashes --only-binary :all: --requirement constraints-image.txt" in dockerfile
    assert "--no-index --no-deps --no-build-isolation ." in dockerfile
    script = (ROOT / "scripts" / "image_constraints.py").read_text()
    (python,) = set(re.findall(r"^FROM python:([\d.]+)-slim-bookworm", dockerfile, re.MULTILINE))
    assert f'PYTHON = "{python}"' in script


def test_what_the_lowest_versions_are_tested_with_exists() -> None:
    script = (ROOT / "scripts" / "lowest.sh").read_text()
    named = re.findall(r"[\w/]+/test_\w+\.py", script)
    assert len(named) > 8
    assert [name for name in named if not (ROOT / "tests" / name).is_file()] == []
