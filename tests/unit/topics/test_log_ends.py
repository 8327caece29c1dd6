"""Where logs begin and end that are not open: asked of the store once, until they have changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from groupd.coordinator.core.metadata_image import MetadataDelta, MetadataImage
from groupd.coordinator.lag.growth import Bounds
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.ownership import SingleNodeOwnership
from groupd.coordinator.topics.catalogue import MetadataListener
from groupd.coordinator.topics.log_ends import StoredEnds
from groupd.coordinator.topics.partitions import Partitions
from groupd.coordinator.topics.topic import Topic, log_name
from groupd.protocol.messages import TopicId
from groupd.storage.log import LogCorrupt, StoredBatch
from groupd.storage.memory import MemoryStore


class CountingStore(MemoryStore):
    """A store whose logs end where the test says."""

    def __init__(self) -> None:
        super().__init__()
        self.end_of: dict[str, int] = {}
        self.asked: list[str] = []
        self.meanwhile: list[Callable[[], None]] = []
        """What happens while it is asked."""

    async def ends(self, names: Sequence[str]) -> dict[str, tuple[int, int]]:
        self.asked += names
        found = {name: (0, self.end_of[name]) for name in names if name in self.end_of}
        for act in self.meanwhile:
            act()
        return found


class Topics:
    """A `TopicCatalogue`, as far as it is asked, with one topic."""

    def __init__(self) -> None:
        self.listeners: list[MetadataListener] = []
        self.now: Topic | None = None
        self.make(partitions=8)

    def make(self, partitions: int) -> None:
        """Make the topic, anew if it is there."""
        before = self.now
        made = 1 if before is None else int.from_bytes(before.topic_id, "big") + 1
        self.now = Topic(TopicId(made.to_bytes(16, "big")), "orders", partitions)
        if before is not None:
            delta = MetadataDelta(MetadataImage(), deleted=((before.name, before.topic_id),))
            for tell in self.listeners:
                tell(delta)

    def topic(self, name: str) -> Topic | None:
        return self.now if name == "orders" else None

    def topic_by_id(self, topic_id: TopicId) -> Topic | None:
        return self.now if self.now is not None and self.now.topic_id == topic_id else None

    def add_listener(self, listener: MetadataListener) -> None:
        self.listeners.append(listener)


class Bench:
    def __init__(self) -> None:
        self.store = CountingStore()
        self.topics = Topics()
        self.partitions = Partitions(self.topics, self.store, {}, SingleNodeOwnership(0))
        self.ends = StoredEnds(
            self.topics, self.partitions, self.store, LongWork(), 1 << 20, shared=False
        )

    @property
    def topic(self) -> Topic:
        assert self.topics.now is not None
        return self.topics.now

    def wrote(self, number: int, end: int) -> None:
        self.store.end_of[log_name(self.topic.topic_id, number)] = end

    async def look(self, *numbers: int) -> dict[int, Bounds]:
        return (await self.ends.look({"orders": numbers})).get("orders", {})

    async def asked(self, numbers: Sequence[int]) -> int:
        """How many logs the store is asked for."""
        self.store.asked.clear()
        await self.look(*numbers)
        return len(self.store.asked)


@pytest.fixture
async def bench() -> Bench:
    made = Bench()
    await made.store.start()
    return made


async def test_the_store_is_asked_once_by_all_who_look(bench: Bench) -> None:
    bench.wrote(1, 30)
    assert await bench.look(0, 1, 2) == {0: Bounds(0, 0), 1: Bounds(0, 30), 2: Bounds(0, 0)}
    assert await bench.asked([5]) == 1  # the preview of a reset, or another node
    assert await bench.asked([0, 1, 2]) == 0


async def test_a_partition_that_the_topic_does_not_have_any_more_is_not_there(bench: Bench) -> None:
    bench.wrote(7, 1000)
    assert await bench.look(7) == {7: Bounds(0, 1000)}
    bench.topics.make(partitions=2)
    assert await bench.look(7) == {}
    assert await bench.look(-1, 1) == {1: Bounds(0, 0)}
    assert await bench.ends.written_ms("orders", 7, 0) is None
    assert await bench.ends.first_at("orders", 7, 0) is None


async def test_bytes_that_are_no_batch_are_told_as_a_damaged_log(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def damaged(name: str, timestamp_ms: int) -> StoredBatch:
        return StoredBatch(0, 0, 5, bytes(80))

    bench.wrote(1, 30)
    monkeypatch.setattr(bench.store, "first_at_or_after", damaged)
    with pytest.raises(LogCorrupt, match="magic 0"):
        await bench.ends.first_at("orders", 1, 5)


async def test_a_log_that_was_open_between_two_looks_is_asked_for_again(bench: Bench) -> None:
    bench.wrote(0, 10)
    assert await bench.look(0, 1) == {0: Bounds(0, 10), 1: Bounds(0, 0)}
    log = await bench.partitions.open(bench.topic, 0)
    bench.wrote(0, 25)
    bench.partitions.drop(log)  # an append has failed; what was before it is in the store
    assert await bench.asked([0, 1]) == 1
    assert await bench.look(0, 1) == {0: Bounds(0, 25), 1: Bounds(0, 0)}


async def test_an_answer_from_before_a_change_is_not_kept(bench: Bench) -> None:
    log = await bench.partitions.open(bench.topic, 0)
    bench.store.meanwhile = [lambda: bench.partitions.drop(log)]
    assert await bench.look(3) == {3: Bounds(0, 0)}
    bench.store.meanwhile = []
    assert await bench.asked([3]) == 1
    assert await bench.asked([3]) == 0
