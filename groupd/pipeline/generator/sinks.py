"""Where a generated log is written: a store that a daemon can open, or segment files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Protocol

from msgspec.json import encode

from groupd.coordinator.logtools.logs import OFFSETS_LOG
from groupd.coordinator.logtools.segments import SegmentWriter
from groupd.coordinator.logtools.topic_ids import write_topics
from groupd.pipeline.errors import PipelineError
from groupd.pipeline.generator.script import EndOffset, GeneratedTopic
from groupd.protocol.records.batch import parse_header
from groupd.protocol.records.batch_builder import new_header, pack_batch
from groupd.storage.log import Append, ConfigEntry, Store, StoredTopic

END_OFFSETS_FILE = "end-offsets.jsonl"
"""A file beside the segments: one object a line, with the columns of `schema.END_OFFSETS`."""

_APPEND_BYTES = 8 * 1024 * 1024
_APPEND_ROWS = 20_000


class PlacedBatch(NamedTuple):
    """A batch at its place in the log."""

    base_offset: int
    last_offset: int
    at_ms: int
    payload: bytes


class GeneratorError(PipelineError):
    """The log cannot be written to that place; `str()` is one line."""


class Sink(Protocol):
    """Takes one log, one whole partition after the other."""

    async def begin(
        self, partitions: int, topics: Sequence[GeneratedTopic], producer_ids: int
    ) -> None:
        """Called first. `producer_ids`: the first producer id that the log does not use. Raises
        GeneratorError if the store or the directory is not empty."""
        ...

    async def write(self, partition: int, batches: Sequence[PlacedBatch]) -> None:
        """Takes all batches of one partition of `__consumer_offsets`, in order."""
        ...

    async def ends(self, topics: Sequence[GeneratedTopic], ends: Sequence[EndOffset]) -> None:
        """Takes the end offsets of the topics over time, sorted by topic, partition and time."""
        ...


class StoreSink:
    """Writes to a started store, which must be empty."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def begin(
        self, partitions: int, topics: Sequence[GeneratedTopic], producer_ids: int
    ) -> None:
        known = [entry[:3] for entry in await self._store.configs()]
        if OFFSETS_LOG.shards_key in known or await self._store.topics():
            raise GeneratorError("the store is in use: a log is generated into a new one")
        resource, name, key = OFFSETS_LOG.shards_key
        await self._store.put_configs([ConfigEntry(resource, name, key, str(partitions))])
        names = [OFFSETS_LOG.store_name(number) for number in range(partitions)]
        await self._store.open_many(names)
        for topic in topics:
            await self._store.put_topic(StoredTopic(topic.topic_id, topic.name, topic.partitions))
        await self._store.next_producer_ids(producer_ids)

    async def write(self, partition: int, batches: Sequence[PlacedBatch]) -> None:
        name = OFFSETS_LOG.store_name(partition)
        epoch = (await self._store.open(name)).owner_epoch
        waiting: list[Append] = []
        size = 0
        for batch in batches:
            waiting.append(Append(name, epoch, *batch))
            size += len(batch.payload)
            if size >= _APPEND_BYTES or len(waiting) == _APPEND_ROWS:
                await self._store.append(waiting)
                waiting, size = [], 0
        await self._store.append(waiting)

    async def ends(self, topics: Sequence[GeneratedTopic], ends: Sequence[EndOffset]) -> None:
        """Writes empty batches, as if compaction had removed their records: offsets and times
        stay."""
        ids = {topic.name: topic.topic_id for topic in topics}
        by_log: dict[str, list[PlacedBatch]] = {}
        for end in ends:
            batches = by_log.setdefault(f"{ids[end.topic].hex()}-{end.partition}", [])
            base = batches[-1].last_offset + 1 if batches else 0
            if end.end_offset > base:
                header = new_header(base, end.end_offset - 1, end.time_ms, end.time_ms)
                payload = pack_batch(header, b"")
                batches.append(PlacedBatch(base, end.end_offset - 1, end.time_ms, payload))
        states = await self._store.open_many(list(by_log))
        appends = [
            Append(name, states[name].owner_epoch, *batch)
            for name, batches in by_log.items()
            for batch in batches
        ]
        for start in range(0, len(appends), _APPEND_ROWS):
            await self._store.append(appends[start : start + _APPEND_ROWS])


class SegmentSink:
    """Writes directories of segment files below `root`, and beside them what a store would know."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def begin(
        self, partitions: int, topics: Sequence[GeneratedTopic], producer_ids: int
    ) -> None:
        self._root.mkdir(parents=True, exist_ok=True)
        if any(self._root.iterdir()):
            raise GeneratorError(f"{self._root}: is not empty: a log is generated into a new one")
        write_topics(self._root, [(one.name, one.topic_id, one.partitions) for one in topics])

    async def write(self, partition: int, batches: Sequence[PlacedBatch]) -> None:
        with SegmentWriter(self._root, partition) as writer:
            for batch in batches:
                writer.write(parse_header(batch.payload), batch.payload)

    async def ends(self, topics: Sequence[GeneratedTopic], ends: Sequence[EndOffset]) -> None:
        with (self._root / END_OFFSETS_FILE).open("wb") as file:
            for end in ends:
                time = datetime.fromtimestamp(end.time_ms / 1000, UTC)
                row = {**end._asdict(), "time": time.isoformat(timespec="milliseconds")}
                del row["time_ms"]
                file.write(encode(row) + b"\n")
