"""The partition log: the one interface for `__consumer_offsets` shards and topic partitions.

A log holds Kafka record batches v2 as opaque bytes, one row a batch, at consecutive offsets. The
caller assigns the offsets: the base offset is already written into the payload, and the store
refuses an append whose base offset is not the log's next one, or whose owner epoch is not the
current one (`LogFenced`). Everything passed to one `append` call is durable together when it
returns; after any other outcome the caller reloads.

The one other way to change a log is `replace`: the cleaner swaps a range of old rows for fewer.
Below the clean offset a row stands for a range of offsets and its payload holds the batches that
are left of it, which may be none.

Storage sees names and bytes; it never looks into a payload.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct

from groupd.storage.units import OwnedUnit, Unit


class LogError(Exception):
    """Base of the store's failures."""


class LogFenced(LogError):
    """Another owner holds the log, or its end is not where the writer believes."""

    def __init__(self, logs: Sequence[str]) -> None:
        super().__init__(f"fenced: {', '.join(logs)}")
        self.logs = tuple(logs)


class LogUnavailable(LogError):
    """The store cannot be reached or refuses (disk full, connection lost). Retriable."""


class LogUncertain(LogUnavailable):
    """The store may have done it: it was lost while it was asked. The next open or read tells."""


class StoreTaken(LogUnavailable):
    """Another process has taken the store over, for good: the answer to everything from then on,
    except that appends raise LogFenced."""


class LogCorrupt(LogError):
    """Stored bytes are not what was written."""


class StoreRefused(LogError):
    """The store cannot be opened: locked, unwritable, newer schema. `str()` is one line that
    says what and how to mend it."""


class StoreNotReady(StoreRefused):
    """The store's server cannot be reached, or is not up yet. It may be in a moment."""


class LogState(Struct, frozen=True):
    """`start_offset`: first readable offset; `next_offset`: the log end; `clean_offset`: how far
    the cleaner has been."""

    name: str
    owner_epoch: int
    start_offset: int
    next_offset: int
    clean_offset: int = 0


class Append(Struct, frozen=True):
    """One batch for the log `name`; offsets `base_offset`..`last_offset` inclusive."""

    name: str
    owner_epoch: int
    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    payload: bytes


class StoredBatch(Struct, frozen=True):
    """One row. Its offsets follow those of the row before, also where the cleaner has left gaps
    between the batches in the payload."""

    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    payload: bytes


class Replacement(Struct, frozen=True):
    """`rows` instead of the rows of `from_offset`..`to_offset` - 1, which they cover too.

    `to_offset` may lie behind the log's end, which then moves there: so a log grows that only
    the cleaner writes. `clean_offset`: the log's new one.
    """

    name: str
    owner_epoch: int
    from_offset: int
    to_offset: int
    rows: tuple[StoredBatch, ...]
    clean_offset: int

    def check(self) -> None:
        """Raises ValueError unless the rows cover exactly the range."""
        at = self.from_offset
        for row in self.rows:
            if row.base_offset != at or row.last_offset < at:
                raise ValueError(f"{self.name}: row {row.base_offset}..{row.last_offset} at {at}")
            at = row.last_offset + 1
        if at != self.to_offset or not self.rows:
            raise ValueError(f"{self.name}: rows end at {at}, not at {self.to_offset}")


EXTENTS_MAX = 512
"""Rows that one call of `extents` tells of, unless it asks for fewer."""


class RowExtent(Struct, frozen=True):
    """One row without its payload: offsets inclusive, `size` in payload bytes."""

    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    size: int


class PartitionLogs(Protocol):
    """A set of named logs in one store."""

    async def open(self, name: str, owned: OwnedUnit | None = None) -> LogState:
        """Create the log if missing, take ownership (owner epoch + 1), return its state. `owned`:
        the unit that the log belongs to; in a cluster, LogFenced is raised if this node does not
        own it at that epoch."""
        ...

    async def open_many(
        self, names: Sequence[str], owned: OwnedUnit | None = None
    ) -> dict[str, LogState]:
        """`open` for many logs in one transaction."""
        ...

    async def append(self, batches: Sequence[Append]) -> None:
        """Durably append all batches in one transaction, in the order given (several of one
        log must follow each other). Raises LogFenced (naming the logs; nothing was written)
        or LogUnavailable (what was written is unknown)."""
        ...

    async def read(
        self, name: str, from_offset: int, max_bytes: int, *, min_one: bool = True
    ) -> list[StoredBatch]:
        """Batches from the one that contains `from_offset` on, up to `max_bytes` payload
        bytes; with `min_one` the first one even if larger. Less than would fit is no sign of
        the end: a read looks at a limited number of rows."""
        ...

    async def first_at_or_after(self, name: str, timestamp_ms: int) -> StoredBatch | None:
        """The first batch with max timestamp >= `timestamp_ms`."""
        ...

    async def with_max_timestamp(self, name: str) -> StoredBatch | None:
        """The earliest batch that has the log's largest timestamp."""
        ...

    async def truncate_before(self, name: str, offset: int, owner_epoch: int | None = None) -> None:
        """Move the start offset up to `offset` and drop whole batches below it. Raises LogFenced if
        the log has another owner epoch than the caller's; None: it may have any."""
        ...

    async def replace(self, change: Replacement) -> None:
        """Swap a range of whole rows in one transaction. Raises LogFenced (another owner, or the
        range begins behind the log's end), LogUnavailable, ValueError (the range cuts a row)."""
        ...

    async def delete(self, names: Sequence[str], owned: OwnedUnit | None = None) -> None:
        """Drop logs and all their batches. `owned` as in `open`."""
        ...


class MeasuredLogs(PartitionLogs, Protocol):
    """Logs that also tell whether they are there, and how large their rows are, as retention and
    compaction of topics ask."""

    async def extents(
        self, name: str, from_offset: int, rows_max: int = EXTENTS_MAX
    ) -> list[RowExtent]:
        """At most `rows_max` rows, beginning with the one that contains `from_offset`, without
        their payloads. There are none at the end of the log and for an unknown log."""
        ...

    async def ends(self, names: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Start and end offset of the logs that exist, opened or not, whoever owns them."""
        ...

    async def size(self, name: str, end_offset: int) -> int:
        """Payload bytes of the rows that end below `end_offset`."""
        ...


FirstEpochs = tuple[tuple[int, tuple[int, ...]], ...]
"""For each change that made partitions of a topic in a cluster: the first of them, and the epochs
at which its unit and those of the partitions that follow are led from then on."""


class StoredTopic(Struct, frozen=True):
    """A row of the catalogue. `topic_id`: 16 bytes. `configs`: overrides, sorted by name."""

    topic_id: bytes
    name: str
    partitions: int
    configs: tuple[tuple[str, str], ...] = ()
    first_epochs: FirstEpochs = ()


class MadePartitions(NamedTuple):
    """`first`: the first of the new partitions; `units`: its unit and those of the partitions that
    follow, each once."""

    first: int
    units: Sequence[Unit]


SECURITY_KINDS = ("acl", "scram", "quota", "secret")


class ConfigEntry(Struct, frozen=True):
    """One override of a broker, a group or another resource. `value` None: it is to be removed."""

    resource_type: int
    name: str
    key: str
    value: str | None


class SecurityEntry(Struct, frozen=True):
    """One ACL, credential or quota, or a secret of the broker. `kind`: one of `SECURITY_KINDS`;
    `key` and `value` are texts that only their owner reads. `value` None: the entry is to be
    removed."""

    kind: str
    key: str
    value: str | None


class Catalogue(Protocol):
    """Small durable facts beside the logs."""

    async def cluster_id(self) -> str:
        """The cluster id, made once (22 characters of base64url)."""
        ...

    async def topics(self) -> list[StoredTopic]: ...

    async def topics_by_id(self, topic_ids: Sequence[bytes]) -> list[StoredTopic]:
        """Those of these topics that exist, sorted by name."""
        ...

    async def put_topic(
        self, topic: StoredTopic, made: MadePartitions | None = None
    ) -> StoredTopic:
        """Insert or replace by topic id. `made`: partitions that this makes; in a cluster, the
        epochs of their units are added to the topic. Returns it as it is stored."""
        ...

    async def delete_topic(self, topic_id: bytes) -> None: ...

    async def configs(self) -> list[tuple[int, str, str, str]]:
        """(resource type, resource name, key, value) of broker and group overrides."""
        ...

    async def configs_of(
        self, resource_type: int, names: Sequence[str]
    ) -> list[tuple[int, str, str, str]]:
        """The same, of some resources."""
        ...

    async def put_configs(self, changes: Sequence[ConfigEntry]) -> None:
        """Set and remove overrides, all in one transaction."""
        ...

    async def security_entries(self, kind: str) -> list[tuple[str, str]]:
        """(key, value) of every entry of one kind, by key."""
        ...

    async def security_entries_of(self, kind: str, keys: Sequence[str]) -> list[tuple[str, str]]:
        """(key, value) of those of these entries that exist, by key."""
        ...

    async def change_security(self, changes: Sequence[SecurityEntry]) -> None:
        """Set and remove entries, all in one transaction. To remove what is not there is no
        mistake."""
        ...

    async def log_sizes(self) -> dict[str, int]:
        """Payload bytes of every log that has any, by name. Reads the whole index of batches."""
        ...

    async def next_producer_ids(self, count: int) -> int:
        """Reserve `count` producer ids for ever; return the first."""
        ...


class Store(MeasuredLogs, Catalogue, Protocol):
    """Everything durable behind one URL."""

    async def start(self) -> None:
        """Connect, migrate, take the exclusive lock. Raises StoreRefused."""
        ...

    async def lost(self) -> str:
        """Waits until another process has taken the store over; one line that says so. Never
        returns where the lock cannot be lost."""
        ...

    async def close(self) -> None: ...


def new_cluster_id() -> str:
    """16 random bytes as 22 characters of base64url, as Kafka writes UUIDs. It never starts with a
    dash, which command lines would take for an option."""
    while True:
        value = base64.urlsafe_b64encode(os.urandom(16))[:22].decode()
        if not value.startswith("-"):
            return value
