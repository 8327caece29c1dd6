"""Random lives of one transactional id, with restarts at any point: what must always hold.

Two producers with the same id, one of each transaction version, do whatever comes to mind. A
change is applied now or later, in between anything may come. The log is a list; a restart
replays it.
"""

from __future__ import annotations

from itertools import pairwise

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.transactions.metadata import (
    AT_REST,
    EPOCH_MAX,
    LAST_EPOCH,
    PREPARED,
    TransactionAnswer,
    TransactionChange,
    TransactionMetadata,
    TransactionStep,
    from_value,
    to_record,
)
from groupd.coordinator.transactions.metadata import TransactionState as S
from groupd.coordinator.transactions.table import TransactionTable
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.data import InitProducerIdRequest
from groupd.protocol.messages.transactions import EndTxnRequest
from tests.support.examples import examples
from tests.unit.transactions.harness import write

BEFORE = {
    S.EMPTY: AT_REST,
    S.ONGOING: AT_REST | {S.ONGOING},
    S.PREPARE_COMMIT: {S.ONGOING},
    S.PREPARE_ABORT: AT_REST | {S.ONGOING},
    S.COMPLETE_COMMIT: {S.PREPARE_COMMIT},
    S.COMPLETE_ABORT: {S.PREPARE_ABORT},
}
"""Kafka's table of valid previous states."""

WHO = st.integers(0, 1)
VERSIONS = (0, 2)


class TransactionalId(RuleBasedStateMachine):
    """`known`: the identity that each of the two producers believes to have."""

    def __init__(self) -> None:
        super().__init__()
        self.config = CoordinatorConfig()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.table = TransactionTable(self.config)
        self.known: list[tuple[int, int]] = [(-1, -1), (-1, -1)]
        self.now_ms = 1_000_000
        self.next_id = 100
        self.waiting: tuple[TransactionChange, int | None] | None = None
        self.highest: dict[int, int] = {}
        self.codes: set[ErrorCode] = set()

    @initialize(version=st.integers(1, 2), epoch=st.sampled_from([0, LAST_EPOCH - 2, LAST_EPOCH]))
    def begin(self, version: int, epoch: int) -> None:
        """Begins, often close to the end of the epochs."""
        self.config = CoordinatorConfig(transaction_version=version)
        self.table = TransactionTable(self.config)
        metadata = TransactionMetadata(99, epoch, 60_000, self.now_ms)
        self.log.append(to_record("x", metadata))
        self.restart()

    # Requests -----------------------------------------------------------------------------

    @rule(who=WHO, resume=st.booleans())
    def init(self, who: int, resume: bool) -> None:
        producer_id, epoch = self.known[who] if resume else (-1, -1)
        request = InitProducerIdRequest("x", 60_000, producer_id, epoch)
        self.submit(who, lambda fresh: self.table.init_producer_id(request, self.now_ms, fresh))

    @rule(who=WHO, partition=st.integers(0, 3))
    def add(self, who: int, partition: int) -> None:
        producer_id, epoch = self.known[who]
        self.submit(
            None,
            lambda _: self.table.add_partitions(
                write(producer_id, epoch, ("t", partition)), VERSIONS[who], self.now_ms
            ),
        )

    @rule(who=WHO, committed=st.booleans())
    def end(self, who: int, committed: bool) -> None:
        producer_id, epoch = self.known[who]
        request = EndTxnRequest("x", producer_id, epoch, committed)
        bumps = VERSIONS[who] == 2
        self.submit(
            who if bumps else None,
            lambda fresh: self.table.end(request, VERSIONS[who], self.now_ms, fresh),
        )

    @rule(ms=st.sampled_from([1, 30_000, 120_000]))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms
        if self.waiting is None and self.table.timed_out(self.table.ongoing(), self.now_ms):
            self.submit(
                None,
                lambda fresh: (
                    self.table.abort_timed_out("x", self.now_ms, fresh) or TransactionAnswer()
                ),
            )

    @precondition(lambda self: self.ready)
    @rule()
    def markers_are_written(self) -> None:
        self.table.marked("x", set(self.table.entries["x"].unmarked))
        self.accept(self.table.completion("x", self.now_ms), None)

    @property
    def ready(self) -> bool:
        return self.waiting is None and self.table.entries["x"].metadata.state in PREPARED

    def submit(self, who: int | None, decide: object) -> None:
        """`who` takes over the identity in the answer, unless it never hears of it."""
        try:
            step: TransactionStep = decide(self.next_id)
        except ApiError as error:
            self.codes.add(error.code)
            return
        self.next_id += 1
        if isinstance(step, TransactionChange):
            self.accept(step, who)
        elif who is not None and step.error is ErrorCode.NONE:
            self.hear(step, who)

    def accept(self, change: TransactionChange, who: int | None) -> None:
        assert self.waiting is None, "two changes at the same time"
        assert change.metadata is not None
        before = self.table.entries["x"].metadata
        assert before.state in BEFORE[change.metadata.state]
        self.log.append(to_record("x", change.metadata))
        self.waiting = (change, who)

    @precondition(lambda self: self.waiting is not None)
    @rule(heard=st.booleans())
    def becomes_durable(self, heard: bool) -> None:
        assert self.waiting is not None
        change, who = self.waiting
        self.waiting = None
        self.table.applied(change)
        if heard and who is not None and change.answer.error is ErrorCode.NONE:
            self.hear(change.answer, who)

    def hear(self, answer: TransactionAnswer, who: int) -> None:
        identity = (answer.producer_id, answer.producer_epoch)
        assert 0 <= answer.producer_epoch <= LAST_EPOCH, "an epoch that is for fencing only"
        assert identity != self.known[1 - who], "two producers with the same identity"
        self.known[who] = identity

    @rule(written=st.booleans())
    def restart(self, written: bool = True) -> None:
        """Restarts: what was not confirmed may be in the log or not."""
        if self.waiting is not None and not written:
            self.log.pop()
        self.waiting = None
        self.table = TransactionTable(self.config)
        for offset, (_, value) in enumerate(self.log):
            self.table.replay("x", None if value is None else from_value(value), offset)

    # Always -------------------------------------------------------------------------------

    @invariant()
    def refusals_are_known(self) -> None:
        assert self.codes <= KNOWN_CODES

    @invariant()
    def memory_is_what_the_log_says(self) -> None:
        last = self.log[-2] if self.waiting is not None else self.log[-1]
        metadata = self.table.entries["x"].metadata if "x" in self.table.entries else None
        if metadata is not None:
            assert to_record("x", metadata) == last

    @invariant()
    def epochs_of_an_id_never_fall(self) -> None:
        if "x" not in self.table.entries:
            return
        metadata = self.table.entries["x"].metadata
        assert self.highest.get(metadata.producer_id, 0) <= metadata.producer_epoch <= EPOCH_MAX
        self.highest[metadata.producer_id] = metadata.producer_epoch

    @invariant()
    def what_is_decided_stays_decided(self) -> None:
        """A prepared end is followed by its own completion only."""
        states = [from_value(value).state for _, value in self.log if value is not None]
        for earlier, later in pairwise(states):
            assert earlier in BEFORE[later]

    @invariant()
    def only_a_prepared_end_has_partitions_to_mark(self) -> None:
        for entry in self.table.entries.values():
            assert not entry.unmarked or entry.metadata.state in PREPARED
            assert entry.pending is not None or entry.metadata.state not in PREPARED


KNOWN_CODES = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.PRODUCER_FENCED,
}

TestTransactionalId = TransactionalId.TestCase
TestTransactionalId.settings = examples(60, stateful_step_count=40)
