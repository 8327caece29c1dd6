"""Transactions in a shard at work: verification, batches of their own, markers, reload."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import astuple

from groupd.coordinator.core.types import Operation
from groupd.coordinator.producers.transactions import Marker, TransactionalWrite
from groupd.coordinator.runtime.journal import Journal
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.coordinator.runtime.transactions import OffsetsMarkers
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.offsets import (
    CommitPartition,
    FetchTopic,
    OffsetFetchGroup,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
    commit_topic,
)
from groupd.protocol.records.batch import BatchHeader, parse_header
from groupd.storage.log import LogUnavailable
from tests.unit.runtime.harness import (
    TOPIC_ID,
    Bench,
    commit,
    commit_errors,
    committed,
    fetch,
    settle,
)

OK = ErrorCode.NONE
LOG = "__consumer_offsets-0"
PLACE = ("__consumer_offsets", 0)
LATEST_NAMED = 5


class Verifier:
    """A `TransactionVerifier`. `codes`: the answers to the next questions, NONE when none are
    left."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.codes: list[ErrorCode] = []
        self.answered = asyncio.Event()
        self.answered.set()

    async def verify(
        self, write: TransactionalWrite, *, add: bool
    ) -> dict[tuple[str, int], ErrorCode]:
        self.asked.append((*astuple(write), add))
        code = self.codes.pop(0) if self.codes else OK
        await self.answered.wait()
        return dict.fromkeys(write.partitions, code)


class Transactions:
    """A bench with a verifier, and short ways to talk to it."""

    def __init__(self, bench: Bench) -> None:
        self.verifier = Verifier()
        self.use(bench)

    def use(self, bench: Bench) -> None:
        self.bench = bench
        bench.broker.verifier = self.verifier
        self.markers = OffsetsMarkers(bench.broker)

    async def commit(
        self, offset: int, version: int = LATEST_NAMED, group: str = "g", **fields: Any
    ) -> list[ErrorCode]:
        return commit_errors(await self.bench.answer(txn(offset, group, **fields), version))

    async def end(
        self,
        *,
        commit: bool,
        producer: int = 7,
        epoch: int = 0,
        coordinator_epoch: int = 0,
        version: int = 1,
        partition: int = 0,
    ) -> ErrorCode:
        marker = Marker(producer, epoch, commit, coordinator_epoch, version)
        place = (PLACE[0], partition)
        return (await self.markers.write_marker(marker, [place]))[place]

    async def stable(self, group: str = "g") -> Any:
        """(offset, code) that a stable reader gets."""
        entry = (await self.bench.answer(stable_fetch(group))).groups[0].topics[0].partitions[0]
        return entry.offset, entry.error

    async def headers(self) -> list[BatchHeader]:
        stored = await self.bench.store.read(LOG, 0, 1 << 20)
        return [parse_header(batch.payload) for batch in stored]


def txn(
    offset: int, group: str = "g", producer: int = 7, epoch: int = 0, **fields: Any
) -> TxnOffsetCommitRequest:
    topic = commit_topic("t", (CommitPartition(0, offset),), TOPIC_ID)
    return TxnOffsetCommitRequest("tx", group, producer, epoch, (topic,), **fields)


def stable_fetch(group: str) -> OffsetFetchRequest:
    topic = FetchTopic("t", (0,), TOPIC_ID)
    return OffsetFetchRequest((OffsetFetchGroup(group, (topic,), require_stable=True),))


UNSTABLE = (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)


@pytest.fixture
async def tx() -> Transactions:
    return Transactions(await Bench().start())


# Commits and markers ------------------------------------------------------------------------


@pytest.mark.parametrize("commit_it", [True, False])
async def test_an_open_transaction_over_a_restart(tx: Transactions, commit_it: bool) -> None:
    await tx.bench.answer(commit("g", 5))
    await tx.commit(9)
    tx.use(await tx.bench.restart())
    assert await tx.stable() == UNSTABLE
    # It is known to be open: nobody is asked, and zombies are known.
    assert await tx.commit(10) == [OK]
    assert len(tx.verifier.asked) == 1
    assert await tx.end(commit=commit_it) == OK
    assert await tx.stable() == (10 if commit_it else 5, OK)
    tx.use(await tx.bench.restart())
    assert await tx.stable() == (10 if commit_it else 5, OK)


async def test_lg_23_a_transactional_write_is_a_batch_of_its_own(tx: Transactions) -> None:
    bench = tx.bench
    await tx.commit(1)  # now the transaction is open, and commits do not wait for the verifier
    bench.store.hold_appends()
    bench.ask(commit("other", 0))
    await settle()
    plain, inside, again = (
        bench.ask(commit("g", 2)),
        bench.ask(txn(3), 5),
        bench.ask(commit("h", 4)),
    )
    bench.store.release_appends()
    await settle()
    assert [len(replies) for replies in (plain, inside, again)] == [1, 1, 1]
    await tx.end(commit=True)
    headers = await tx.headers()
    assert [(h.base_offset, h.attributes, h.producer_id, h.base_sequence) for h in headers] == [
        (0, 0x10, 7, 0),
        (1, 0, -1, 0),
        (2, 0, -1, 0),
        (3, 0x10, 7, 0),
        (4, 0, -1, 0),
        (5, 0x30, 7, -1),
    ]


async def test_lg_32_a_version_2_marker_at_the_epoch_of_an_open_transaction(
    tx: Transactions,
) -> None:
    await tx.commit(9)
    assert await tx.end(commit=True, version=2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await tx.stable() == UNSTABLE
    assert await tx.end(commit=True, epoch=1, version=2) == OK
    assert await tx.end(commit=True, epoch=1, version=2) == OK  # a retry
    assert await tx.stable() == (9, OK)
    assert len(await tx.headers()) == 3
    assert await tx.commit(10, epoch=0) == [ErrorCode.INVALID_PRODUCER_EPOCH]


async def test_a_fenced_coordinator_writes_no_marker(tx: Transactions) -> None:
    await tx.end(commit=True, coordinator_epoch=2)
    await tx.commit(9)
    fenced = await tx.end(commit=True, coordinator_epoch=1)
    assert fenced == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert await tx.stable() == UNSTABLE


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (CoordinatorState.LOADING, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (CoordinatorState.FAILED, ErrorCode.NOT_COORDINATOR),
    ],
)
async def test_a_marker_for_a_shard_that_does_not_serve(
    tx: Transactions, state: CoordinatorState, code: ErrorCode
) -> None:
    tx.bench.shard.state = state
    assert await tx.end(commit=True) == code
    assert await tx.headers() == []
    assert await tx.end(commit=True, partition=1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    tx.bench.broker.started = False
    assert await tx.end(commit=True) == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_readers_wait_for_a_marker_that_is_not_durable(tx: Transactions) -> None:
    await tx.commit(9)
    tx.bench.store.hold_appends()
    ending = asyncio.create_task(tx.end(commit=True))
    await settle()
    reading = tx.bench.ask(fetch("g"))
    await settle()
    assert (ending.done(), reading) == (False, [])
    tx.bench.store.release_appends()
    assert await ending == OK
    assert committed(reading[0]) == [9]


async def test_a_commit_waits_for_its_batch(tx: Transactions) -> None:
    tx.bench.store.hold_appends()
    replies = tx.bench.ask(txn(9), LATEST_NAMED)
    await settle()
    assert replies == []
    tx.bench.store.release_appends()
    await settle()
    assert commit_errors(replies[0]) == [OK]


async def test_a_marker_that_cannot_be_written_leaves_all_pending(tx: Transactions) -> None:
    await tx.commit(9)
    tx.bench.store.fail_next_append(LogUnavailable("no"))
    assert await tx.end(commit=True) == ErrorCode.NOT_COORDINATOR
    await settle()
    assert await tx.stable() == UNSTABLE
    assert await tx.end(commit=True) == OK
    assert await tx.stable() == (9, OK)


async def test_a_commit_that_cannot_be_written_is_not_pending(tx: Transactions) -> None:
    tx.bench.store.fail_next_append(LogUnavailable("no"))
    assert await tx.commit(9) == [ErrorCode.NOT_COORDINATOR]
    await settle()
    assert await tx.stable() == (-1, OK)
    assert not tx.bench.shard.producers.in_transaction(7, 0)


async def test_a_marker_that_takes_too_long(tx: Transactions) -> None:
    tx.bench.store.hold_appends()
    ending = asyncio.create_task(tx.end(commit=True))
    await settle()
    tx.bench.clock.advance(tx.bench.config.offsets_commit_timeout_ms)
    assert await ending == ErrorCode.COORDINATOR_NOT_AVAILABLE
    tx.bench.store.release_appends()


# What the data plane sees -------------------------------------------------------------------


async def test_the_view_knows_the_transactions_of_the_log(tx: Transactions) -> None:
    view = tx.bench.broker.served
    await tx.bench.answer(commit("g", 5))
    await tx.commit(9)
    producers = view.producers(0)
    assert producers is not None
    assert producers.transactions.last_stable_offset(2) == 1
    await tx.end(commit=False)
    assert producers.transactions.last_stable_offset(3) == 3
    assert producers.transactions.aborted(0, 3) == ((7, 1),)
    tx.bench.shard.state = CoordinatorState.FAILED
    assert view.producers(0) is None


# Verification -------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "add"), [(0, False), (4, False), (5, True)])
async def test_the_coordinator_is_asked_once(tx: Transactions, version: int, add: bool) -> None:
    assert await tx.commit(9, version) == [OK]
    assert await tx.commit(10, version) == [OK]
    assert tx.verifier.asked == [("tx", 7, 0, (PLACE,), add)]


@pytest.mark.parametrize(
    ("answer", "version", "shown"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.INVALID_TXN_STATE, 5, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.PRODUCER_FENCED, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 5, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 5, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.NETWORK_EXCEPTION, 5, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NETWORK_EXCEPTION, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, 5, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, 5, ErrorCode.NOT_COORDINATOR),
    ],
)
async def test_refusals_of_the_coordinator(
    tx: Transactions, answer: ErrorCode, version: int, shown: ErrorCode
) -> None:
    tx.verifier.codes = [answer]
    assert await tx.commit(9, version) == [shown]
    assert await tx.headers() == []


@pytest.mark.parametrize(("version", "code"), [(1, 15), (2, 14)])
async def test_of_53_loading(tx: Transactions, version: int, code: int) -> None:
    tx.bench.shard.state = CoordinatorState.LOADING
    assert await tx.commit(9, version) == [code]
    assert tx.verifier.asked == []


async def test_a_marker_overtakes_the_verification(tx: Transactions) -> None:
    tx.verifier.answered.clear()
    replies = tx.bench.ask(txn(9), 4)
    await settle()
    assert await tx.end(commit=False) == OK
    tx.verifier.answered.set()
    await settle()
    assert commit_errors(replies[0]) == [ErrorCode.INVALID_TXN_STATE]


async def test_a_shard_that_is_loaded_anew_meanwhile(tx: Transactions) -> None:
    tx.verifier.answered.clear()
    replies = tx.bench.ask(txn(9), LATEST_NAMED)
    await settle()
    tx.bench.store.fail_next_append(LogUnavailable("no"))
    await tx.bench.answer(commit("h", 1))
    await settle()
    tx.verifier.answered.set()
    await settle()
    assert commit_errors(replies[0]) == [ErrorCode.NOT_COORDINATOR]
    assert await tx.commit(9) == [OK]


async def test_verification_may_be_off() -> None:
    tx = Transactions(await Bench(transaction_partition_verification_enable=False).start())
    assert await tx.commit(9, 4) == [OK]
    assert tx.verifier.asked == []
    await tx.end(commit=True)
    assert await tx.commit(9, 5) == [OK]
    assert len(tx.verifier.asked) == 1


async def test_refusals_that_ask_nobody(tx: Transactions) -> None:
    assert await tx.commit(9, group="") == [ErrorCode.INVALID_GROUP_ID]
    unknown = TxnOffsetCommitRequest(
        "tx", "g", 7, 0, (commit_topic("no", (CommitPartition(0, 1),)),)
    )
    reply = await tx.bench.answer(unknown, LATEST_NAMED)
    assert commit_errors(reply) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    denied = tx.bench.ask(txn(1), LATEST_NAMED, lambda operation, *_: operation != Operation.WRITE)
    assert commit_errors(denied[0]) == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    tx.bench.broker.started = False
    assert await tx.commit(9) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert tx.verifier.asked == []


async def test_without_a_transaction_coordinator_nothing_is_in_a_transaction() -> None:
    bench = await Bench().start()
    reply = await bench.answer(txn(9), LATEST_NAMED)
    assert commit_errors(reply) == [ErrorCode.INVALID_TXN_STATE]


def test_the_bytes_of_a_marker() -> None:
    """The worked example of docs/spec/offsets-and-log.md#5.3."""
    journal = Journal(9, 1 << 20)
    journal.accept_marker(Marker(1000, 0, True, 3, 1), ["g"], [], 0)
    (taken,) = journal.take(1_700_000_000_000)
    assert (taken.base_offset, taken.last_offset) == (9, 9)
    assert taken.payload == bytes.fromhex(
        "0000000000000009 00000042 00000000 02 954be106 0030 00000000"
        "0000018bcfe56800 0000018bcfe56800 00000000000003e8 0000 ffffffff 00000001"
        "20 00 00 00 08 00000001 0c 000000000003 00"
    )
