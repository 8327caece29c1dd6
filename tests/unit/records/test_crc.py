"""The checksum is the package's, whether its extension is loaded alone or not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from groupd.protocol import crc

ROOT = Path(__file__).resolve().parents[3]
CHECKED = b"123456789", 0xE3069283


class NoPathFinder:
    @staticmethod
    def find_spec(name: str, path: object) -> None:
        return None


def test_the_extension_is_where_it_is_looked_for() -> None:
    alone = crc._extension()
    assert alone is not None, "a start loads the whole package again"
    assert alone(CHECKED[0]) == crc.crc32c(memoryview(CHECKED[0])) == CHECKED[1]


def test_the_package_can_still_be_imported_as_a_whole() -> None:
    code = (
        "import sys, protocol.crc\n"
        "assert 'crc32c' not in sys.modules\n"
        "import crc32c\n"
        "assert crc32c.crc32c(b'123456789') == protocol.crc.crc32c(b'123456789')\n"
        "assert isinstance(crc32c.hardware_based, bool)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_a_package_without_the_extension_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crc, "PathFinder", NoPathFinder)
    assert crc._extension() is None
    assert crc._whole()(CHECKED[0]) == CHECKED[1]
