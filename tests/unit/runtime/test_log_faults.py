"""Faults of the log by the numbers of docs/spec/offsets-and-log.md#11, and logs that somebody
else wrote."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from structlog.testing import capture_logs

from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import HeartbeatReply
from groupd.protocol.messages.offsets import (
    CommitPartition,
    FetchTopic,
    OffsetCommitRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
    commit_topic,
)
from groupd.protocol.records.batch_builder import encode_batch
from groupd.protocol.records.codec import encode_key, encode_value
from groupd.protocol.records.schema import (
    ConsumerGroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
    Record,
)
from groupd.storage.log import Append, LogUnavailable
from groupd.storage.memory import MemoryStore
from tests.unit.runtime.harness import (
    TOPIC_ID,
    Bench,
    beat,
    commit,
    commit_errors,
    committed,
    consumer_join,
    fetch,
    settle,
)

LOG = "__consumer_offsets-0"
REFUSED = [ErrorCode.NOT_COORDINATOR]
RawRecord = tuple[bytes | None, bytes | None]


def raw(record: Record) -> RawRecord:
    return encode_key(record.key), encode_value(record)


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


async def write_behind_its_back(bench: Bench, *records: RawRecord) -> None:
    """Appends as the shard itself would, with its owner epoch, at the end of its log."""
    at = bench.shard.durable_offset
    payload = encode_batch(at, 0, 0, records)
    last = at + len(records) - 1
    epoch = bench.shard.owner_epoch
    await bench.store.append([Append(LOG, epoch, at, last, 0, bytes(payload))])


async def loaded(*records: RawRecord) -> Bench:
    """A broker that has read these records from its log."""
    store = MemoryStore()
    await store.start()
    state = await store.open(LOG)
    payload = bytes(encode_batch(0, 0, 0, records))
    await store.append([Append(LOG, state.owner_epoch, 0, len(records) - 1, 0, payload)])
    return await Bench(store).start()


# Appends ------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [None, LogUnavailable("database or disk is full")])
async def test_lg_08_lg_09_commits_that_share_a_batch_fail_together(error: Any) -> None:
    bench = await Bench().start()
    await bench.answer(commit("g", 1))
    await bench.answer(commit("h", 1))
    bench.store.hold_appends()
    bench.ask(commit("other", 1))
    await settle()
    bench.store.fail_next_append(applied=True)  # of that one; it is settled by the reload
    replies = [bench.ask(commit("g", 2)), bench.ask(commit("h", 2)), bench.ask(commit("new", 2))]
    before = bench.broker.writer.transactions
    bench.store.release_appends()
    await settle()
    assert [commit_errors(reply[0]) for reply in replies] == [REFUSED] * 3
    assert bench.broker.writer.transactions == before, "no second transaction wrote them"
    for group, offset in (("g", 1), ("h", 1), ("other", 1), ("new", -1)):
        assert committed(await bench.answer(fetch(group))) == [offset], group
    assert "new" not in bench.shard.shard.state.groups

    bench.store.fail_next_append(error)
    replies = [bench.ask(commit("g", 3)), bench.ask(commit("h", 3))]
    await settle()
    assert [commit_errors(reply[0]) for reply in replies] == [REFUSED] * 2
    for group in "gh":
        assert committed(await bench.answer(fetch(group))) == [1]
        assert commit_errors(await bench.answer(commit(group, 4))) == [ErrorCode.NONE]
    await bench.broker.close()


async def test_lg_10_a_log_that_ends_elsewhere_than_predicted() -> None:
    """The store refuses an append that is not at its end; what is in the log is then the truth."""
    bench = await Bench().start()
    await bench.answer(commit("g", 1))
    stranger = Record(OffsetCommitKey("stranger", "t", 0), OffsetCommitValue(77))
    await write_behind_its_back(bench, raw(stranger))
    replies = [bench.ask(commit("g", 2)), bench.ask(commit("h", 2))]
    await settle()
    assert [commit_errors(reply[0]) for reply in replies] == [REFUSED] * 2
    assert bench.shard.state is CoordinatorState.ACTIVE, "loaded again"
    assert committed(await bench.answer(fetch("stranger"))) == [77]
    assert committed(await bench.answer(fetch("g"))) == [1]
    assert commit_errors(await bench.answer(commit("g", 3))) == [ErrorCode.NONE]
    again = await bench.restart()
    assert committed(await again.answer(fetch("g"))) == [3]
    await again.broker.close()


async def test_lg_13_lg_14_the_log_belongs_to_who_opened_it_last() -> None:
    """Two brokers on one store: there is no unload that could come too late, as the store itself
    knows the owner epoch and refuses the older one."""
    old = await Bench().start()
    await old.answer(commit("g", 1))
    new = await Bench(old.store).start()
    assert new.shard.owner_epoch == old.shard.owner_epoch + 1
    assert commit_errors(await new.answer(commit("g", 2))) == [ErrorCode.NONE]
    late = old.ask(commit("g", 9))
    parked = old.ask(fetch("g"))
    old.shard.close()  # before its reload takes the log back
    await settle()
    assert [commit_errors(reply) for reply in late] == [REFUSED]
    assert [reply.groups[0].error for reply in parked] == REFUSED
    assert committed(await new.answer(fetch("g"))) == [2]
    again = await new.restart()
    assert committed(await again.answer(fetch("g"))) == [2], "the late commit is nowhere"
    await again.broker.close()
    await old.broker.close()


async def test_lg_22_a_burst_shares_a_batch_and_waits_for_no_timer() -> None:
    """There is no linger time: what comes while the loop is busy or an append is under way goes
    out together, as Kafka's adaptive linger (-1) has it."""
    bench = await Bench().start()
    batches = bench.broker.writer.batches
    timers = bench.clock.next_timer_ms()
    replies = [bench.ask(commit(f"g{number}", number)) for number in range(50)]
    assert all(reply == [] for reply in replies)
    await settle()
    assert all(commit_errors(reply[0]) == [ErrorCode.NONE] for reply in replies)
    assert bench.broker.writer.batches == batches + 1
    assert bench.clock.now().monotonic_ms < (timers or 1 << 60), "no time has passed"
    await bench.broker.close()


# What is in the log -------------------------------------------------------------------------


async def test_lg_21_a_group_that_is_deleted_before_its_members_fails_the_load() -> None:
    bench = await Bench().start()
    assert (await bench.answer(consumer_join("g", "m1"))).error == ErrorCode.NONE
    await write_behind_its_back(bench, raw(Record(ConsumerGroupMetadataKey("g"), None)))
    with capture_logs() as logs:
        again = await bench.restart()
    assert again.shard.state is CoordinatorState.FAILED
    (error,) = [entry for entry in logs if entry["event"] == "shard cannot be loaded"]
    assert f"{LOG} at offset" in error["reason"]
    assert commit_errors(await again.answer(commit("other", 1))) == REFUSED
    await again.broker.close()


@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_lg_20_lg_18_offsets_of_older_brokers(version: int) -> None:
    value = struct.pack(">hq", version, 41)
    if version >= 3:
        value += struct.pack(">i", 6)
    value += string("meta") + struct.pack(">q", 1000)
    if version == 1:
        value += struct.pack(">q", 5000)
    key = b"\x00\x01" + string("g") + string("t") + struct.pack(">i", 0)
    bench = await loaded((key, value))
    reply = await bench.answer(fetch("g"))
    (entry,) = reply.groups[0].topics[0].partitions
    assert (entry.offset, entry.metadata) == (41, "meta")
    assert entry.leader_epoch == (6 if version >= 3 else -1)
    await bench.broker.close()


async def test_lg_20_lg_17_legacy_keys_of_the_first_offsets_topics() -> None:
    key = b"\x00\x00" + string("g") + string("t") + struct.pack(">i", 0)
    value = struct.pack(">hq", 0, 41) + string("") + struct.pack(">q", 1000)
    newer = Record(OffsetCommitKey("g", "t", 1), OffsetCommitValue(5))
    bench = await loaded((key, value), raw(newer))
    assert committed(await bench.answer(fetch("g", 0, 1))) == [41, 5]
    # Its tombstone is read too; a Kafka of those days wrote it with the same key.
    gone = await loaded((key, value), (key, None))
    assert committed(await gone.answer(fetch("g"))) == [-1]
    for one in (bench, gone):
        await one.broker.close()


def group_metadata(version: int, members: int, timestamp_ms: int = -1) -> RawRecord:
    """GroupMetadata as older brokers wrote it."""
    value = struct.pack(">h", version) + string("consumer") + struct.pack(">i", 3)
    value += string("range") + string("m0") if members else struct.pack(">hh", -1, -1)
    if version >= 2:
        value += struct.pack(">q", timestamp_ms)
    value += struct.pack(">i", members)
    for number in range(members):
        value += string(f"m{number}") + string("client") + string("/10.0.0.1")
        if version >= 1:
            value += struct.pack(">i", 20_000)
        value += struct.pack(">i", 10_000)
        for data in (b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff", b"a"):
            value += struct.pack(">i", len(data)) + data
    return b"\x00\x02" + string("g"), value


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_lg_20_a_classic_group_with_members_is_stable(version: int) -> None:
    bench = await loaded(group_metadata(version, 2, 1000))
    for member in ("m0", "m1"):
        assert await bench.answer(beat("g", 3, member)) == HeartbeatReply()
    assert (await bench.answer(beat("g", 2, "m0"))).error == ErrorCode.ILLEGAL_GENERATION
    (group,) = bench.shard.shard.state.groups.values()
    assert group.state_name() == "Stable"
    timeouts = {member.rebalance_timeout_ms for member in group.members.values()}
    # v0 has none: the session timeout stands in.
    assert timeouts == ({20_000} if version >= 1 else {10_000})
    await bench.broker.close()


@pytest.mark.parametrize(
    ("version", "timestamp_ms", "expires"),
    [(0, -1, True), (1, -1, True), (2, -1, True), (2, 1 << 42, False)],
)
async def test_lg_20_offsets_of_an_empty_group_expire_by_what_is_known(
    version: int, timestamp_ms: int, expires: bool
) -> None:
    """The time of the commit counts where the record does not say since when the group is empty."""
    old = Record(OffsetCommitKey("g", "t", 0), OffsetCommitValue(41, commit_timestamp_ms=1000))
    bench = await loaded(group_metadata(version, 0, timestamp_ms), raw(old))
    (group,) = bench.shard.shard.state.groups.values()
    assert group.state_name() == "Empty"
    bench.clock.advance(bench.config.offsets_retention_check_interval_ms)
    await settle()
    assert (bench.shard.shard.offset_count() == 0) is expires
    await bench.broker.close()


async def test_of_38_only_what_waits_for_a_write_is_told_so() -> None:
    """Each request in its own words: a fetch gets NOT_COORDINATOR, which old consumers know."""
    bench = await Bench(offsets_commit_timeout_ms=5000).start()
    await bench.answer(commit("other", 5))
    bench.store.hold_appends()
    two = commit_topic("t", (CommitPartition(0, 7), CommitPartition(1, 7)), TOPIC_ID)
    write = bench.ask(OffsetCommitRequest("g", (two,)))
    topic = FetchTopic("t", (0,), TOPIC_ID)
    groups = tuple(OffsetFetchGroup(name, (topic,), require_stable=True) for name in ("g", "other"))
    read = bench.ask(OffsetFetchRequest(groups))
    await settle()
    bench.clock.advance(4999)
    assert (write, read) == ([], [])
    bench.clock.advance(1)
    assert commit_errors(write[0]) == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    assert [group.error for group in read[0].groups] == [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NONE,
    ]
    bench.store.release_appends()
    await settle()
    await bench.broker.close()
