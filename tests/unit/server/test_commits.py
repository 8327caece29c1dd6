"""Commits that come again: the same replies, memory and log with and without the quick way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from groupd.coordinator.core.offsets.store import StoredOffset
from groupd.coordinator.core.partitioning import offsets_log_name
from groupd.coordinator.server import commits
from groupd.coordinator.server.commits import CommitSlot, CommitTable
from groupd.protocol.errors import ErrorCode
from groupd.protocol.records.batch import iter_records
from groupd.protocol.records.codec import decode_record
from groupd.protocol.records.schema import OffsetCommitKey, OffsetCommitValue
from groupd.protocol.wire.encode import Writer
from tests.bench.frames import consumer_heartbeat, request_frame
from tests.support.kio_entities import plain, read_response
from tests.unit.server.test_steady import TOPIC, Peer, parse

MEMBER = "m0"

Entries = Sequence[tuple[int, int]]
"""Partition and offset."""


def commit(
    entries: Entries, epoch: int = -1, *, group: str = "g", member: str = "", metadata: str = ""
) -> bytes:
    """OffsetCommit v9 of one topic."""
    writer = Writer(flexible=True)
    writer.string(group)
    writer.int32(epoch)
    writer.string(member)
    writer.nullable_string(None)
    writer.array_length(1)
    writer.string(TOPIC)
    writer.array_length(len(entries))
    for partition, offset in entries:
        writer.int32(partition)
        writer.int64(offset)
        writer.int32(-1)
        writer.nullable_string(metadata)
        writer.end()
    writer.end()
    writer.end()
    return request_frame(8, 9, writer.buffer, flexible=True)


def errors(reply: bytes) -> list[int]:
    (topic,) = plain(read_response("OffsetCommit", 9, reply[5:]))["topics"]
    return [entry["error_code"] for entry in topic["partitions"]]


@contextmanager
def quick_commits() -> Iterator[list[CommitSlot]]:
    """Those that are taken without being decoded."""
    taken: list[CommitSlot] = []
    again = CommitTable.again

    def counted(self: CommitTable, *args: Any) -> CommitSlot | None:
        slot = again(self, *args)
        if slot is not None:
            taken.append(slot)
        return slot

    with mock.patch.object(CommitTable, "again", counted):
        yield taken


def stored(peer: Peer, group: str = "g") -> dict[tuple[str, int], StoredOffset]:
    shard = peer.daemon.broker.own_shard_of(group).shard
    topics = shard.offsets.store.topics(group)
    return {(name, p): offset for name, found in topics.items() for p, offset in found.items()}


async def logged(peer: Peer, group: str = "g") -> dict[tuple[str, int], StoredOffset]:
    """What a reader of the log finds."""
    runtime = peer.daemon.broker.own_shard_of(group)
    found = {}
    logs = peer.daemon._store
    for batch in await logs.read(offsets_log_name(runtime.partition), 0, 1 << 30):
        for raw in iter_records(batch.payload):
            assert raw.key is not None
            record = decode_record(raw.key, raw.value)
            key, value = record.key, record.value
            if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
                found[key.topic, key.partition] = StoredOffset.of(value, raw.offset)
    return found


STEPS = st.one_of(
    st.tuples(
        st.just("commit"),
        st.sampled_from(((0, 1), (0, 1), (0, 1), (2,), (0, 1, 2, 3, 4, 5), (1, 1), (0, 9))),
        st.integers(0, 2**40),
        st.sampled_from((0, 0, 0, 0, -1, 1)),
    ),
    st.sampled_from(("beat", "another joins", "another leaves", "metadata", "anonymous")),
)


async def play(peer: Peer, script: list[Any]) -> list[Any]:
    """The replies to a script; the first step is always m0's join."""
    seen: list[Any] = []
    epoch = parse(await peer.ask(consumer_heartbeat("g", MEMBER, 0, (TOPIC,), ()), 0))[1]
    for number, step in enumerate(script, 1):
        if isinstance(step, tuple):
            _, partitions, offset, late = step
            frame = commit([(p, offset + p) for p in partitions], epoch + late, member=MEMBER)
        elif step == "metadata":
            frame = commit([(0, 5), (1, 6)], epoch, member=MEMBER, metadata="m")
        elif step == "anonymous":
            frame = commit([(0, 7), (1, 8)])
        else:
            other, said = {"another joins": ("m1", 0), "another leaves": ("m1", -1)}.get(
                step, (MEMBER, epoch)
            )
            joins = said == 0
            frame = consumer_heartbeat("g", other, said, (TOPIC,) if joins else None, None)
            reply = await peer.ask(frame, number)
            error, new_epoch, _ = parse(reply)
            seen.append((step, error, new_epoch))
            epoch = new_epoch if other == MEMBER and not error else epoch
            continue
        seen.append(await peer.ask(frame, number))
    return seen


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(script=st.lists(STEPS, min_size=5, max_size=40))
def test_the_same_with_and_without(tmp_path: Path, script: list[Any]) -> None:
    async def both() -> None:
        async with Peer(tmp_path, steady=True) as on, Peer(tmp_path, steady=False) as off:
            assert await play(on, script) == await play(off, script)
            memory, other = stored(on), stored(off)
            assert memory == await logged(on)
            ignored = {"commit_timestamp_ms": 0, "topic_id": b""}
            assert {place: offset._replace(**ignored) for place, offset in memory.items()} == {
                place: offset._replace(**ignored) for place, offset in other.items()
            }

    asyncio.run(both())


async def test_the_third_commit_is_quick_and_so_are_those_behind_it(tmp_path: Path) -> None:
    async with Peer(tmp_path, steady=True) as peer:
        with quick_commits() as quick:
            for number in range(10):
                reply = await peer.ask(commit([(0, number), (5, -number)]), number)
                assert reply[:4] == number.to_bytes(4, "big")
                assert errors(reply) == [0, 0]
                assert len(quick) == max(number - 1, 0)
        assert {place: o.offset for place, o in stored(peer).items()} == {
            (TOPIC, 0): 9,
            (TOPIC, 5): -9,
        }
        assert stored(peer) == await logged(peer)
        assert peer.daemon.connections.requests[8, 9] == 10
        assert peer.daemon.broker.event_counts["offsets-committed"] == 20


async def test_pipelined_commits_are_quick_and_in_order(tmp_path: Path) -> None:
    async with Peer(tmp_path, steady=True) as peer:
        frames = [commit([(0, number)]) for number in range(50)]
        with quick_commits() as quick:
            for number in range(2):
                await peer.ask(frames[number], number)
            await peer.send(
                b"".join(f[:8] + n.to_bytes(4, "big") + f[12:] for n, f in enumerate(frames))
            )
            for number in range(50):
                reply = await peer.receive()
                assert reply[:4] == number.to_bytes(4, "big")
                assert errors(reply) == [0]
            assert len(quick) == 50
        assert stored(peer)[TOPIC, 0].offset == 49
        assert stored(peer) == await logged(peer)


async def test_a_commit_that_is_no_more_allowed_is_refused(tmp_path: Path) -> None:
    async with Peer(tmp_path, steady=True) as peer:
        epoch = parse(await peer.ask(consumer_heartbeat("g", MEMBER, 0, (TOPIC,), ()), 0))[1]
        for number in range(4):
            reply = await peer.ask(commit([(0, number)], epoch, member=MEMBER), number)
            assert errors(reply) == [0]
        await peer.ask(consumer_heartbeat("g", MEMBER, -1), 9)
        await peer.ask(consumer_heartbeat("g", "m1", 0, (TOPIC,), ()), 9)
        with quick_commits() as quick:
            reply = await peer.ask(commit([(0, 99)], epoch, member=MEMBER), 10)
        assert errors(reply) == [ErrorCode.UNKNOWN_MEMBER_ID]
        assert not quick
        assert stored(peer)[TOPIC, 0].offset == 3


async def test_new_topics_are_looked_at_again(tmp_path: Path) -> None:
    async with Peer(tmp_path, steady=True) as peer:
        for number in range(4):
            await peer.ask(commit([(0, number)]), number)
        topic_id = peer.daemon.broker.image.by_name[TOPIC].topic_id
        await peer.daemon.data_plane.catalogue.delete(topic_id)
        with quick_commits() as quick:
            reply = await peer.ask(commit([(0, 99)]), 10)
        assert errors(reply) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert not quick


async def test_a_log_that_refuses_is_told_as_ever(tmp_path: Path) -> None:
    async with Peer(tmp_path, steady=True) as peer:
        for number in range(4):
            await peer.ask(commit([(0, number)]), number)
        peer.daemon._store.fail_next_append()  # type: ignore[attr-defined]
        with quick_commits() as quick:
            reply = await peer.ask(commit([(0, 99)]), 10)
        assert len(quick) == 1
        assert errors(reply) == [ErrorCode.NOT_COORDINATOR]
        # The shard is loaded again: what was refused is not there.
        while errors(reply := await peer.ask(commit([(1, 5)]), 11)) != [0]:
            assert errors(reply)[0] in (
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            )
        assert {place: o.offset for place, o in stored(peer).items()} == {
            (TOPIC, 0): 3,
            (TOPIC, 1): 5,
        }


async def test_connections_that_never_repeat_themselves_are_left_alone(tmp_path: Path) -> None:
    async with Peer(tmp_path, steady=True) as peer:
        with mock.patch.object(commits, "CommitForm", wraps=commits.CommitForm) as made:
            for number in range(20):
                await peer.ask(commit([(number % 6, number)]), number)
        assert made.call_count == commits.FUTILE_MAX
        assert peer.daemon.connections.commit_forms == 0


async def test_what_is_kept_has_a_limit_and_ends_with_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "KEPT_MAX", commits.FORM_COST + 3)
    async with Peer(tmp_path, steady=True) as peer:
        stats = peer.daemon.connections
        with quick_commits() as quick:
            for number in range(4):
                await peer.ask(commit([(p, number) for p in range(4)]), number)
            assert not quick
            assert stats.commit_forms == 0
            for number in range(4):
                await peer.ask(commit([(p, number) for p in range(3)]), number)
            assert len(quick) == 2
            assert stats.commit_forms == commits.KEPT_MAX
    assert stats.commit_forms == 0
