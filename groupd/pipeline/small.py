"""Settings for a small log, where Spark spends most of its time on preparation.

Spark generates and compiles Java code for every query, and the virtual machine then compiles that
twice, the second time thoroughly, which pays off only when it runs for minutes. A small log is done
before that. So its queries are compiled once, quickly, and one thread collects garbage.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from groupd.coordinator.logtools.errors import LogToolError
from groupd.coordinator.logtools.segments import offsets_partitions
from groupd.pipeline.inputs import Origin
from groupd.pipeline.store import store_url
from groupd.storage.log import StoreRefused
from groupd.storage.open import database_file

SMALL_BYTES = 256 * 1024 * 1024
"""The largest log that counts as small. As segments that is some two million records."""

SETTINGS: Mapping[str, str] = {
    # With the first compiler alone Java keeps 48 MB for compiled code, which several jobs can fill.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    "-XX:ReservedCodeCacheSize=240m"
}
"""What Spark gets for a small log."""


def settings_for(origin: Origin) -> dict[str, str]:
    """Settings of Spark, to be given before it starts."""
    size = log_bytes(origin)
    return dict(SETTINGS) if size is not None and size <= SMALL_BYTES else {}


def log_bytes(origin: Origin) -> int | None:
    """The size of the segment files, database file or lake on this machine; None if that cannot be
    looked up at once."""
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
        pass  # the error will be reported when the log is read
    return None
