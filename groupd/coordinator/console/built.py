"""The files that the build of `web/` has left in `built/`. A checkout or a wheel may be without
them, because only npm can make them. The pipeline imports this module, and nothing else of the
console."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def built_files() -> Mapping[str, bytes]:
    """The files by name; none if nothing was built."""
    folder = Path(__file__).with_name("built")
    if not folder.is_dir():
        return {}
    return {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()}
