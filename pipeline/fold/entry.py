"""What a fold is fed: a record of the log as plain data.

`value` has the fields of the record's struct in `pipeline.schema`, but instants are milliseconds
since 1970 and named so: `commit_ms`, `expire_ms`, `current_state_ms`, `assignment_ms`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

Value = Mapping[str, Any]

OFFSET_KINDS = frozenset({0, 1})
CLASSIC_GROUP = 2
CONSUMER_GROUP = 3
MEMBER_METADATA = 5
TARGET_METADATA = 6
TARGET_MEMBER = 7
CURRENT_MEMBER = 8
REGEX = 16
KINDS = (0, 1, 2, 3, 5, 6, 7, 8, 16)
"""Record type numbers that tell of groups."""


class FoldEntry(NamedTuple):
    """`kind`: record type number, None for the end of a transaction (`marker`: commit or abort).
    `value` None with `tombstone`. `producer_id`: -1 outside of transactions."""

    log_partition: int
    offset: int
    at_ms: int
    kind: int | None
    group: str = ""
    member: str = ""
    topic: str = ""
    partition: int = -1
    tombstone: bool = False
    producer_id: int = -1
    marker: str | None = None
    value: Value | None = None
