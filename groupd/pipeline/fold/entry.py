"""The input of a fold: a record of the log as plain data.

`value` has the fields of the record's struct in `pipeline.schema`, except that instants are
milliseconds since 1970 under other names: `commit_ms`, `expire_ms`, `current_state_ms`,
`assignment_ms`.
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
"""The numbers of the record types that concern groups."""


class FoldEntry(NamedTuple):
    """One record. `kind`: the record type number, None for the end of a transaction (then `marker`
    is commit or abort). `value` is None if `tombstone`. `producer_id`: -1 outside of
    transactions."""

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
