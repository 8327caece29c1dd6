"""What is set for a small log: there most of Spark's work is to get ready for work.

Spark makes and compiles Java for every query, and the virtual machine then compiles it again, twice
and the second time thoroughly, which pays when it runs for minutes. A small log is over by then:
its queries are compiled once, quickly, and one thread collects garbage.
"""

from __future__ import annotations

from pathlib import Path

from groupd.coordinator.logtools.errors import LogToolError
from groupd.coordinator.logtools.segments import offsets_partitions
from groupd.pipeline.inputs import Origin
from groupd.pipeline.store import store_url
from groupd.storage.log import StoreRefused
from groupd.storage.open import database_file

SMALL_BYTES = 256 * 1024 * 1024
"""As segments that is some two million records."""

_SETTINGS = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def settings_for(origin: Origin) -> dict[str, str]:
    """Of Spark, before it starts."""
    size = log_bytes(origin)
    return dict(_SETTINGS) if size is not None and size <= SMALL_BYTES else {}


def log_bytes(origin: Origin) -> int | None:
    """Of segment files, of a database file or of a lake on this machine; None where that is not to
    be had for a look."""
    try:
        if origin.segments is not None:
            files = offsets_partitions(Path(origin.segments)).values()
            return sum(file.stat().st_size for paths in files for file in paths)
        if origin.store is not None:
            found = database_file(store_url(origin.store), ".")
            return None if found is None else found.stat().st_size
        if origin.lake is not None and "://" not in origin.lake:
            return sum(one.stat().st_size for one in Path(origin.lake).rglob("*.parquet"))
    except (LogToolError, StoreRefused, OSError):
        pass  # whoever reads it will say so
    return None
