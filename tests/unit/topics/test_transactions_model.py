"""Random interleavings of producers against the rule: a committed reader sees exactly the records
of committed transactions and plain ones, in the order of the log, before and after a restart.

The reader is Kafka's consumer: aborted transactions that begin at or below a batch's last offset
are in force until their ABORT marker (KIP-98).
"""

from __future__ import annotations

import asyncio
import heapq
from dataclasses import dataclass, field
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.data import READ_COMMITTED
from groupd.protocol.records.batch import decode_marker, iter_records
from groupd.storage.memory import MemoryStore
from tests.support.examples import examples
from tests.support.fetched import whole_batches

PRODUCERS = (1, 2, 3)

producer = st.sampled_from(PRODUCERS)
STEPS = st.one_of(
    st.tuples(st.just("write"), producer, st.integers(1, 3)),
    st.tuples(st.just("plain"), st.just(0), st.integers(1, 2)),
    st.tuples(st.just("commit"), producer, st.sampled_from((1, 2))),
    st.tuples(st.just("abort"), producer, st.sampled_from((1, 2))),
    st.tuples(st.just("again"), producer, st.just(0)),
    st.tuples(st.just("restart"), st.just(0), st.just(0)),
    st.tuples(st.just("read"), st.just(0), st.integers(1, 400)),
)


@dataclass
class Model:
    """The truth: what every offset holds and how its transaction ended."""

    log: list[tuple[int, bytes] | None] = field(default_factory=list)
    """(producer id or 0, value); None = a marker."""
    open: dict[int, list[int]] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)
    epochs: dict[int, int] = field(default_factory=lambda: dict.fromkeys(PRODUCERS, 0))
    sequences: dict[int, int] = field(default_factory=lambda: dict.fromkeys(PRODUCERS, 0))

    def stable(self) -> int:
        return min((offsets[0] for offsets in self.open.values()), default=len(self.log))

    def committed(self, from_offset: int) -> list[tuple[int, bytes]]:
        return [
            (offset, entry[1])
            for offset, entry in enumerate(self.log[: self.stable()])
            if entry is not None and offset >= from_offset and offset not in self.aborted
        ]


async def read_committed(cluster: Any, offset: int, max_bytes: int) -> list[tuple[int, bytes]]:
    """Everything that a consumer with `isolation.level=read_committed` would hand out."""
    found: list[tuple[int, bytes]] = []
    while True:
        fetched = await cluster.fetch(
            "t", offset, isolation_level=READ_COMMITTED, partition_max_bytes=max_bytes
        )
        assert fetched.error == ErrorCode.NONE
        if not fetched.records:
            assert offset == fetched.last_stable_offset
            return found
        waiting = [(first, producer_id) for producer_id, first in fetched.aborted]
        heapq.heapify(waiting)
        in_force: set[int] = set()
        for batch in whole_batches(fetched.records):
            header = batch.header
            while waiting and waiting[0][0] <= header.last_offset:
                in_force.add(heapq.heappop(waiting)[1])
            if header.is_control:
                (record,) = iter_records(batch)
                marker = decode_marker(record)
                if marker is not None and not marker.committed:
                    in_force.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in in_force):
                found += [(r.offset, r.value) for r in iter_records(batch) if r.offset >= offset]
            last = header.next_offset
        offset = last


async def step(cluster: Any, model: Model, what: str, who: int, number: int) -> None:
    if what == "write":
        values = [b"%d" % (len(model.log) + at) for at in range(number)]
        sent = await cluster.send(
            "t", *values, producer=who, epoch=model.epochs[who], sequence=model.sequences[who]
        )
        assert sent == (ErrorCode.NONE, len(model.log))
        model.sequences[who] += number
        for value in values:
            model.open.setdefault(who, []).append(len(model.log))
            model.log.append((who, value))
    elif what == "plain":
        values = [b"%d" % (len(model.log) + at) for at in range(number)]
        await cluster.produce("t", cluster.batch(*values))
        model.log += [(0, value) for value in values]
    elif what in ("commit", "abort"):
        epoch = model.epochs[who]
        if number == 2:
            epoch = model.epochs[who] = epoch + 1
            model.sequences[who] = 0
        code = await cluster.end(
            "t", commit=what == "commit", producer=who, epoch=epoch, version=number
        )
        assert code == ErrorCode.NONE
        offsets = model.open.pop(who, [])
        model.log.append(None)
        if what == "abort":
            model.aborted.update(offsets)
    elif what == "again":
        # A late marker of version 2 ends nothing; without open transaction it is a retry.
        code = await cluster.end(
            "t", commit=False, producer=who, epoch=model.epochs[who], version=2
        )
        if who in model.open:
            assert code == ErrorCode.INVALID_PRODUCER_EPOCH
        else:
            assert code == ErrorCode.NONE
            model.log.append(None)
    elif what == "restart":
        await cluster.restart()
    else:
        found = await read_committed(cluster, 0, number)
        assert found == model.committed(0)


async def play(cluster: Any, steps: list[tuple[str, int, int]], reader: int) -> None:
    model = Model()
    await cluster.start()
    await cluster.create("t")
    for what, who, number in steps:
        await step(cluster, model, what, who, number)
    for _ in range(2):
        from_offset = min(reader, len(model.log))
        if from_offset <= model.stable():
            found = await read_committed(cluster, from_offset, 100)
            assert found == model.committed(from_offset)
        await cluster.restart()
    await cluster.stop()


@examples(150)
@example(  # the older of two transactions is aborted last
    steps=[("write", 1, 1), ("write", 2, 1), ("abort", 2, 1), ("abort", 1, 1)], reader=0
)
@given(steps=st.lists(STEPS, max_size=25), reader=st.integers(0, 30))
def test_committed_readers_see_what_was_committed(
    make_cluster_class: Any, steps: list[tuple[str, int, int]], reader: int
) -> None:
    asyncio.run(play(make_cluster_class(MemoryStore()), steps, reader))
