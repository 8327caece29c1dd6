"""The partition log: the one interface for `__consumer_offsets` shards and topic partitions.

A log holds Kafka record batches v2 as opaque bytes, one row for each batch, at consecutive offsets.
The caller assigns the offsets: the base offset is already written into the payload. The store
refuses an append (`LogFenced`) if its base offset is not the log's next one, or if its owner epoch
is not the current one. All batches of one `append` call are durable together when it returns; after
any other outcome the caller loads the log again.

The only other way to change a log is `replace`, with which the cleaner replaces a range of old rows
by fewer. Below the clean offset a row stands for a range of offsets. Its payload holds the batches
that are left of that range, which may be none. The store sees names and bytes; it never looks into
a payload.
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
    """Another owner holds the log, or its end is not where the writer expects it."""

    def __init__(self, logs: Sequence[str]) -> None:
        super().__init__(f"fenced: {', '.join(logs)}")
        self.logs = tuple(logs)


class LogUnavailable(LogError):
    """The store cannot be reached, or refuses (disk full, connection lost). Retriable."""


class LogUncertain(LogUnavailable):
    """The connection to the store was lost before it answered, so the change may have been made.
    The next open or read shows whether it was."""


class StoreTaken(LogUnavailable):
    """Another process has taken the store over, for good. From then on every call raises this
    error, except that appends raise LogFenced."""


class LogCorrupt(LogError):
    """Stored bytes are not what was written."""


class StoreRefused(LogError):
    """The store cannot be opened: it is locked, unwritable, or has a newer schema. `str()` is one
    line that says what is wrong and how to mend it."""


class StoreNotReady(StoreRefused):
    """The store's server cannot be reached, or is still starting. It may be ready in a moment."""


class LogState(Struct, frozen=True):
    """`start_offset`: the first readable offset. `next_offset`: the log end. `clean_offset`: the
    cleaner has been up to here."""

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
    """One row. It begins after the last offset of the row before, even if the cleaner has left gaps
    between the batches in the payload."""

    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    payload: bytes


class Replacement(Struct, frozen=True):
    """Replaces the rows of offsets `from_offset`..`to_offset` - 1 by `rows`, which cover the same
    range. `to_offset` may be after the log's end, which then moves there: so a log grows that only
    the cleaner writes. `clean_offset`: the log's new clean offset."""

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
"""The most rows that one call of `extents` returns."""


class RowExtent(Struct, frozen=True):
    """One row without its payload. Offsets are inclusive; `size`: payload bytes."""

    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    size: int


class PartitionLogs(Protocol):
    """A set of named logs in one store."""

    async def open(self, name: str, owned: OwnedUnit | None = None) -> LogState:
        """Creates the log if it is missing, takes ownership (owner epoch + 1) and returns its
        state. `owned`: the unit that the log belongs to. In a cluster, LogFenced is raised if this
        node does not own the unit at that epoch."""
        ...

    async def open_many(
        self, names: Sequence[str], owned: OwnedUnit | None = None
    ) -> dict[str, LogState]:
        """As `open`, for many logs in one transaction."""
        ...

    async def append(self, batches: Sequence[Append]) -> None:
        """Durably appends all batches in one transaction, in the order given (batches of one log
        must follow each other). Raises LogFenced, which names the logs: nothing was written. Raises
        LogUnavailable: the batches may or may not have been written."""
        ...

    async def read(
        self, name: str, from_offset: int, max_bytes: int, *, min_one: bool = True
    ) -> list[StoredBatch]:
        """Returns batches, beginning with the one that contains `from_offset`, up to `max_bytes`
        payload bytes; with `min_one`, the first one even if it is larger. A read looks at a limited
        number of rows, so it may return less although the log has more."""
        ...

    async def first_at_or_after(self, name: str, timestamp_ms: int) -> StoredBatch | None:
        """Returns the first batch with max timestamp >= `timestamp_ms`."""
        ...

    async def with_max_timestamp(self, name: str) -> StoredBatch | None:
        """Returns the earliest batch that has the log's largest timestamp."""
        ...

    async def truncate_before(self, name: str, offset: int, owner_epoch: int | None = None) -> None:
        """Moves the start offset up to `offset` and drops whole batches below it. Raises LogFenced
        if the log's owner epoch is not `owner_epoch`; None: any owner epoch will do."""
        ...

    async def replace(self, change: Replacement) -> None:
        """Replaces a range of whole rows in one transaction. Raises LogFenced (another owner, or
        the range begins after the log's end), LogUnavailable, ValueError (the range cuts a row)."""
        ...

    async def delete(self, names: Sequence[str], owned: OwnedUnit | None = None) -> None:
        """Drops logs and all their batches. `owned` as in `open`."""
        ...


class MeasuredLogs(PartitionLogs, Protocol):
    """Logs that also tell whether they exist, and how large their rows are, for retention and
    compaction of topics."""

    async def extents(
        self, name: str, from_offset: int, rows_max: int = EXTENTS_MAX
    ) -> list[RowExtent]:
        """Returns at most `rows_max` rows without their payloads, beginning with the row that
        contains `from_offset`. None at the end of the log and for an unknown log."""
        ...

    async def ends(self, names: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Returns the start and end offset of the logs that exist, whether they were opened or not,
        and whoever owns them."""
        ...

    async def size(self, name: str, end_offset: int) -> int:
        """Returns the payload bytes of the rows that end below `end_offset`."""
        ...


FirstEpochs = tuple[tuple[int, tuple[int, ...]], ...]
"""For each change that made partitions of a topic in a cluster: the first of the new partitions,
and the epochs at which the units of this partition and of the following ones are led from then
on."""


class StoredTopic(Struct, frozen=True):
    """A row of the catalogue. `topic_id`: 16 bytes. `configs`: overrides, sorted by name."""

    topic_id: bytes
    name: str
    partitions: int
    configs: tuple[tuple[str, str], ...] = ()
    first_epochs: FirstEpochs = ()


class MadePartitions(NamedTuple):
    """`first`: the first of the new partitions. `units`: its unit and the units of the partitions
    that follow, each once."""

    first: int
    units: Sequence[Unit]


SECURITY_KINDS = ("acl", "scram", "quota", "secret")


class ConfigEntry(Struct, frozen=True):
    """One override of a broker, a group or another resource. `value` None: to be removed."""

    resource_type: int
    name: str
    key: str
    value: str | None


class SecurityEntry(Struct, frozen=True):
    """One ACL, credential or quota, or a secret of the broker. `kind`: one of `SECURITY_KINDS`.
    `key` and `value` are texts that only the writer of this kind understands. `value` None: the
    entry is to be removed."""

    kind: str
    key: str
    value: str | None


class Catalogue(Protocol):
    """Small durable state besides the logs: topics, configs, security entries, producer ids."""

    async def cluster_id(self) -> str:
        """Returns the cluster id (22 characters of base64url), which is made once."""
        ...

    async def topics(self) -> list[StoredTopic]: ...

    async def topics_by_id(self, topic_ids: Sequence[bytes]) -> list[StoredTopic]:
        """Returns the topics among `topic_ids` that exist, sorted by name."""
        ...

    async def put_topic(
        self, topic: StoredTopic, made: MadePartitions | None = None
    ) -> StoredTopic:
        """Inserts a topic, or replaces the one with its id. `made`: the partitions that are new; in
        a cluster, the epochs of their units are added to the topic. Returns the topic as it is
        stored."""
        ...

    async def delete_topic(self, topic_id: bytes) -> None: ...

    async def configs(self) -> list[tuple[int, str, str, str]]:
        """Returns (resource type, resource name, key, value) of broker and group overrides."""
        ...

    async def configs_of(
        self, resource_type: int, names: Sequence[str]
    ) -> list[tuple[int, str, str, str]]:
        """As `configs`, for some resources only."""
        ...

    async def put_configs(self, changes: Sequence[ConfigEntry]) -> None:
        """Sets and removes overrides, all in one transaction."""
        ...

    async def security_entries(self, kind: str) -> list[tuple[str, str]]:
        """Returns (key, value) of all entries of one kind, by key."""
        ...

    async def security_entries_of(self, kind: str, keys: Sequence[str]) -> list[tuple[str, str]]:
        """Returns (key, value) of the entries among these that exist, by key."""
        ...

    async def change_security(self, changes: Sequence[SecurityEntry]) -> None:
        """Sets and removes entries, all in one transaction. An entry to remove need not exist."""
        ...

    async def log_sizes(self) -> dict[str, int]:
        """Returns the payload bytes of each log that has any, by name. Reads the whole index of
        batches."""
        ...

    async def next_producer_ids(self, count: int) -> int:
        """Reserves `count` producer ids for good and returns the first."""
        ...


class Store(MeasuredLogs, Catalogue, Protocol):
    """All durable state behind one URL."""

    async def start(self) -> None:
        """Connects, migrates, takes the exclusive lock. Raises StoreRefused."""
        ...

    async def lost(self) -> str:
        """Waits until another process has taken the store over, then returns one line that says so.
        Never returns if the store's lock cannot be lost."""
        ...

    async def close(self) -> None: ...


def new_cluster_id() -> str:
    """Returns 16 random bytes as 22 characters of base64url, as Kafka writes UUIDs. They never
    start with a dash, which command lines would take for an option."""
    while True:
        value = base64.urlsafe_b64encode(os.urandom(16))[:22].decode()
        if not value.startswith("-"):
            return value
