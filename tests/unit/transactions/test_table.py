"""The state machine, case by case: every state against every request (Kafka's coordinator)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.transactions.metadata import (
    EPOCH_MAX,
    LAST_EPOCH,
    NeedsProducerId,
    TransactionAnswer,
    TransactionChange,
    TransactionMetadata,
    TransactionStep,
)
from groupd.coordinator.transactions.metadata import TransactionState as S
from groupd.coordinator.transactions.table import TransactionTable
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.data import InitProducerIdRequest
from groupd.protocol.messages.transactions import EndTxnRequest
from tests.unit.transactions.harness import (
    BAD_STATE,
    CONCURRENT,
    FENCED,
    MAPPING,
    NONE,
    T0,
    T1,
    TIMEOUT_MS,
    write,
)

NOW = 5_000
ID, EPOCH = 10, 5
STATES = [
    S.EMPTY,
    S.ONGOING,
    S.PREPARE_COMMIT,
    S.PREPARE_ABORT,
    S.COMPLETE_COMMIT,
    S.COMPLETE_ABORT,
]


def metadata(state: S, **changes: object) -> TransactionMetadata:
    is_open = state in (S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT)
    made = TransactionMetadata(
        ID,
        EPOCH,
        TIMEOUT_MS,
        1_000,
        state,
        frozenset({T0}) if is_open else frozenset(),
        -1 if state is S.EMPTY else 900,
        previous_producer_id=ID,
    )
    return replace(made, **changes)


def table(state: S | None, pending: S | None = None, **changes: object) -> TransactionTable:
    """One id "x" in `state`, resting unless `pending` says otherwise; None: no id."""
    made = TransactionTable(CoordinatorConfig())
    if state is not None:
        made.replay("x", metadata(state, **changes), 0)
        made.entries["x"].pending = pending
    return made


def outcome(made: TransactionTable, step: object) -> object:
    """The error, NONE for an answer without change, the new state for a change."""
    try:
        done = step()
    except ApiError as error:
        return error.code
    if isinstance(done, TransactionAnswer):
        return done.error
    assert isinstance(done, TransactionChange)
    assert made.entries["x"].pending is done.metadata.state
    return done.metadata.state


def init(made: TransactionTable, producer_id: int = -1, epoch: int = -1, fresh: int | None = 99):
    request = InitProducerIdRequest("x", TIMEOUT_MS, producer_id, epoch)
    return lambda: made.init_producer_id(request, NOW, fresh)


def add(made: TransactionTable, producer_id: int = ID, epoch: int = EPOCH, *, version: int = 0):
    return lambda: made.add_partitions(write(producer_id, epoch, T1), version, NOW)


def end(
    made: TransactionTable,
    commit: bool,
    epoch: int = EPOCH,
    *,
    version: int,
    producer_id: int = ID,
    fresh: int | None = 99,
):
    request = EndTxnRequest("x", producer_id, epoch, commit)
    return lambda: made.end(request, version, NOW, fresh)


# Every state --------------------------------------------------------------------------------

INIT = {
    None: S.EMPTY,
    S.EMPTY: S.EMPTY,
    S.ONGOING: S.PREPARE_ABORT,
    S.PREPARE_COMMIT: CONCURRENT,
    S.PREPARE_ABORT: CONCURRENT,
    S.COMPLETE_COMMIT: S.EMPTY,
    S.COMPLETE_ABORT: S.EMPTY,
}
ADD = {
    None: MAPPING,
    S.EMPTY: S.ONGOING,
    S.ONGOING: S.ONGOING,
    S.PREPARE_COMMIT: CONCURRENT,
    S.PREPARE_ABORT: CONCURRENT,
    S.COMPLETE_COMMIT: S.ONGOING,
    S.COMPLETE_ABORT: S.ONGOING,
}
END_V1 = {  # commit, abort
    None: (MAPPING, MAPPING),
    S.EMPTY: (BAD_STATE, BAD_STATE),
    S.ONGOING: (S.PREPARE_COMMIT, S.PREPARE_ABORT),
    S.PREPARE_COMMIT: (CONCURRENT, BAD_STATE),
    S.PREPARE_ABORT: (BAD_STATE, CONCURRENT),
    S.COMPLETE_COMMIT: (NONE, BAD_STATE),
    S.COMPLETE_ABORT: (BAD_STATE, NONE),
}
END_V2_CURRENT = {
    None: (MAPPING, MAPPING),
    S.EMPTY: (BAD_STATE, S.PREPARE_ABORT),
    S.ONGOING: (S.PREPARE_COMMIT, S.PREPARE_ABORT),
    S.PREPARE_COMMIT: (FENCED, FENCED),
    S.PREPARE_ABORT: (FENCED, FENCED),
    S.COMPLETE_COMMIT: (BAD_STATE, S.PREPARE_ABORT),
    S.COMPLETE_ABORT: (BAD_STATE, S.PREPARE_ABORT),
}
END_V2_RETRY = {
    S.EMPTY: (FENCED, FENCED),
    S.ONGOING: (FENCED, FENCED),
    S.PREPARE_COMMIT: (CONCURRENT, BAD_STATE),
    S.PREPARE_ABORT: (BAD_STATE, CONCURRENT),
    S.COMPLETE_COMMIT: (NONE, BAD_STATE),
    S.COMPLETE_ABORT: (BAD_STATE, NONE),
}


@pytest.mark.parametrize("state", [None, *STATES])
def test_init_producer_id_in_every_state(state: S | None) -> None:
    made = table(state)
    assert outcome(made, init(made)) == INIT[state]


@pytest.mark.parametrize("state", [None, *STATES])
def test_add_partitions_in_every_state(state: S | None) -> None:
    made = table(state)
    assert outcome(made, add(made)) == ADD[state]


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("state", [None, *STATES])
def test_end_v1_in_every_state(state: S | None, commit: bool) -> None:
    made = table(state)
    assert outcome(made, end(made, commit, version=0)) == END_V1[state][not commit]


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("state", [None, *STATES])
def test_end_v2_with_the_current_epoch(state: S | None, commit: bool) -> None:
    made = table(state)
    assert outcome(made, end(made, commit, version=2)) == END_V2_CURRENT[state][not commit]


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("state", STATES)
def test_end_v2_retried_with_the_epoch_before(state: S, commit: bool) -> None:
    made = table(state)
    assert outcome(made, end(made, commit, EPOCH - 1, version=2)) == END_V2_RETRY[state][not commit]


@pytest.mark.parametrize("state", STATES)
def test_whatever_is_pending_refuses_every_change(state: S) -> None:
    made = table(state, pending=S.ONGOING)
    steps = [init(made), add(made)]
    steps += [end(made, commit, version=version) for commit in (True, False) for version in (0, 2)]
    assert {outcome(made, step) for step in steps} == {CONCURRENT}


def test_pending_comes_before_the_identity_in_v2_and_after_it_in_v1() -> None:
    """With version 2 the producer may use an id that is not in memory yet."""
    made = table(S.PREPARE_ABORT, pending=S.COMPLETE_ABORT)
    assert outcome(made, end(made, False, version=2, producer_id=77)) == CONCURRENT
    assert outcome(made, add(made, 77)) == CONCURRENT
    assert outcome(made, end(made, False, version=0, producer_id=77)) == MAPPING
    assert outcome(made, end(made, False, EPOCH + 1, version=0)) == FENCED


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("epoch", [EPOCH - 2, EPOCH + 1])
def test_zombies_and_strangers_are_fenced(state: S, epoch: int) -> None:
    made = table(state)
    assert outcome(made, add(made, epoch=epoch)) == FENCED
    assert outcome(made, add(made, 77)) == MAPPING
    for version in (0, 2):
        for commit in (True, False):
            assert outcome(made, end(made, commit, epoch, version=version)) == FENCED
            stranger = end(made, commit, version=version, producer_id=77)
            assert outcome(made, stranger) == MAPPING


# What changes -------------------------------------------------------------------------------


def changed(step: TransactionStep) -> TransactionMetadata:
    assert isinstance(step, TransactionChange)
    assert step.metadata is not None
    return step.metadata


def test_a_new_id_begins_at_epoch_0() -> None:
    made = table(None)
    step = init(made)()
    after = changed(step)
    assert (after.producer_id, after.producer_epoch, after.start_ms) == (99, 0, -1)
    assert step.answer == TransactionAnswer(NONE, 99, 0)
    made.applied(step)
    assert made.entries["x"].metadata == after


def test_a_new_id_needs_a_producer_id_and_nothing_happens_without() -> None:
    made = table(None)
    with pytest.raises(NeedsProducerId):
        init(made, fresh=None)()
    assert made.entries == {}


def test_the_first_partition_starts_the_transaction() -> None:
    after = changed(add(table(S.COMPLETE_COMMIT), version=2)())
    assert (after.start_ms, after.last_update_ms) == (NOW, NOW)
    assert (after.partitions, after.client_version) == (frozenset({T1}), 2)
    more = changed(add(table(S.ONGOING))())
    assert (more.start_ms, more.partitions) == (900, frozenset({T0, T1}))


def test_known_partitions_change_nothing() -> None:
    made = table(S.ONGOING)
    assert made.add_partitions(write(ID, EPOCH, T0), 0, NOW) == TransactionAnswer()
    assert made.entries["x"].pending is None


def test_v1_ends_keep_the_epoch_and_v2_ends_bump_it() -> None:
    after = changed(end(table(S.ONGOING), True, version=0)())
    assert (after.producer_epoch, after.last_producer_epoch, after.start_ms) == (EPOCH, -1, 900)
    step = end(table(S.ONGOING), True, version=2)()
    after = changed(step)
    assert (after.producer_epoch, after.last_producer_epoch) == (EPOCH + 1, EPOCH)
    assert step.answer == TransactionAnswer(NONE, ID, EPOCH + 1)


def test_v2_retry_is_answered_with_the_current_identity() -> None:
    made = table(S.COMPLETE_COMMIT, producer_epoch=8)
    assert end(made, True, 7, version=2)() == TransactionAnswer(NONE, ID, 8)


def test_v2_abort_without_a_transaction_starts_now() -> None:
    after = changed(end(table(S.EMPTY), False, version=2)())
    assert (after.state, after.start_ms, after.partitions) == (S.PREPARE_ABORT, NOW, frozenset())


@pytest.mark.parametrize(("version", "marked"), [(0, 1), (2, 2)])
def test_completion_clears_the_partitions(version: int, marked: int) -> None:
    made = table(S.ONGOING)
    made.applied(end(made, True, version=version)())
    entry = made.entries["x"]
    assert (entry.pending, entry.unmarked) == (S.COMPLETE_COMMIT, {T0})
    made.marked("x", [T0])
    step = made.completion("x", NOW + 1)
    made.applied(step)
    after = entry.metadata
    assert (after.state, after.partitions, after.start_ms) == (
        S.COMPLETE_COMMIT,
        frozenset(),
        900,
    )
    assert after.last_update_ms == NOW + 1
    assert entry.pending is None


# InitProducerId with an identity (KIP-360) --------------------------------------------------


def test_the_current_epoch_is_bumped_and_a_retry_gets_the_same() -> None:
    made = table(S.EMPTY)
    first = init(made, ID, EPOCH)()
    assert first.answer == TransactionAnswer(NONE, ID, EPOCH + 1)
    made.applied(first)
    again = init(made, ID, EPOCH)()
    assert again.answer == TransactionAnswer(NONE, ID, EPOCH + 1)
    made.applied(again)
    assert outcome(made, init(made, ID, EPOCH - 1)) == FENCED


def test_a_new_producer_makes_the_old_one_a_zombie() -> None:
    made = table(S.EMPTY)
    made.applied(init(made)())
    assert outcome(made, init(made, ID, EPOCH)) == FENCED


def test_a_foreign_producer_id_is_fenced() -> None:
    for state in STATES:
        made = table(state)
        assert outcome(made, init(made, 77, EPOCH)) == FENCED


def test_an_id_that_was_forgotten_takes_any_identity() -> None:
    made = table(None)
    assert init(made, 77, 3)().answer == TransactionAnswer(NONE, 99, 0)


# Epochs run out -----------------------------------------------------------------------------


def test_exhausted_epochs_lead_to_a_new_producer_id() -> None:
    made = table(S.COMPLETE_COMMIT, producer_epoch=LAST_EPOCH)
    with pytest.raises(NeedsProducerId):
        init(made, fresh=None)()
    step = init(made, ID, LAST_EPOCH)()
    assert step.answer == TransactionAnswer(NONE, 99, 0)
    made.applied(step)
    # An epoch of the old id says nothing about the new one.
    assert outcome(made, init(made, ID, 0)) == FENCED
    # Its answer was lost: the old identity gets the new one once more.
    assert init(made, ID, LAST_EPOCH)().answer == TransactionAnswer(NONE, 99, 0)


def test_a_retry_at_the_last_epoch_gets_it_again() -> None:
    made = table(S.EMPTY, producer_epoch=LAST_EPOCH, last_producer_epoch=LAST_EPOCH - 1)
    assert init(made, ID, LAST_EPOCH - 1)().answer == TransactionAnswer(NONE, ID, LAST_EPOCH)


def test_v2_end_at_the_last_epoch_moves_to_a_new_producer_id() -> None:
    made = table(S.ONGOING, producer_epoch=LAST_EPOCH)
    with pytest.raises(NeedsProducerId):
        end(made, True, LAST_EPOCH, version=2, fresh=None)()
    assert made.entries["x"].pending is None
    step = end(made, True, LAST_EPOCH, version=2)()
    after = changed(step)
    # The marker is of the old id at the epoch that no producer ever gets.
    assert (after.producer_id, after.producer_epoch, after.next_producer_id) == (ID, EPOCH_MAX, 99)
    assert step.answer == TransactionAnswer(NONE, 99, 0)
    made.applied(step)
    made.marked("x", [T0])
    made.applied(made.completion("x", NOW))
    after = made.entries["x"].metadata
    assert (after.producer_id, after.producer_epoch, after.previous_producer_id) == (99, 0, ID)
    assert after.next_producer_id == -1
    # A retry shows the old identity.
    assert end(made, True, LAST_EPOCH, version=2)() == TransactionAnswer(NONE, 99, 0)
    assert outcome(made, end(made, False, LAST_EPOCH, version=2)) == BAD_STATE


@pytest.mark.parametrize(("commit", "found"), [(True, BAD_STATE), (False, S.PREPARE_ABORT)])
def test_v2_at_the_last_epoch_is_no_retry(commit: bool, found: object) -> None:
    """Nothing has moved to a new producer id yet."""
    made = table(S.COMPLETE_COMMIT, producer_epoch=LAST_EPOCH)
    assert outcome(made, end(made, commit, LAST_EPOCH, version=2)) == found


# A producer is shut out ---------------------------------------------------------------------


@pytest.mark.parametrize(("version", "last"), [(1, -1), (2, EPOCH)])
def test_init_during_a_transaction_fences_and_aborts(version: int, last: int) -> None:
    made = TransactionTable(CoordinatorConfig(transaction_version=version))
    made.replay("x", metadata(S.ONGOING), 0)
    step = init(made)()
    after = changed(step)
    assert step.answer == TransactionAnswer(CONCURRENT)
    assert (after.state, after.producer_epoch) == (S.PREPARE_ABORT, EPOCH + 1)
    assert (after.last_producer_epoch, after.bumps_epoch) == (last, version == 2)


def test_fencing_at_the_last_epoch() -> None:
    made = table(S.ONGOING, producer_epoch=LAST_EPOCH)
    with pytest.raises(NeedsProducerId):
        init(made, fresh=None)()
    after = changed(init(made)())
    assert (after.producer_epoch, after.next_producer_id) == (EPOCH_MAX, 99)
    old = TransactionTable(CoordinatorConfig(transaction_version=1))
    old.replay("x", metadata(S.ONGOING, producer_epoch=LAST_EPOCH), 0)
    after = changed(init(old, fresh=None)())
    assert (after.producer_epoch, after.next_producer_id) == (EPOCH_MAX, -1)


@pytest.mark.parametrize("state", [S.COMPLETE_ABORT, S.COMPLETE_COMMIT])
@pytest.mark.parametrize("commit", [True, False])
def test_v2_end_of_a_producer_that_was_shut_out_at_the_last_epoch(state: S, commit: bool) -> None:
    """It is no retry: the answer would give the producer an epoch that nobody may use."""
    made = table(state, producer_epoch=EPOCH_MAX)
    assert outcome(made, end(made, commit, LAST_EPOCH, version=2)) == FENCED


def test_transactions_time_out_after_their_own_timeout() -> None:
    made = table(S.ONGOING)
    due_ms = 900 + TIMEOUT_MS
    assert made.timed_out(made.ongoing(), due_ms) == []
    assert made.timed_out(made.ongoing(), due_ms + 1) == ["x"]
    assert made.abort_timed_out("x", due_ms, None) is None
    change = made.abort_timed_out("x", due_ms + 1, None)
    assert changed(change).producer_epoch == EPOCH + 1
    assert made.timed_out(made.ongoing(), due_ms + 1) == []
    assert made.abort_timed_out("gone", due_ms, None) is None


@pytest.mark.parametrize("state", [state for state in STATES if state is not S.ONGOING])
def test_only_open_transactions_time_out(state: S) -> None:
    made = table(state)
    assert made.timed_out(made.ongoing(), 10**15) == []


EXPIRING = {S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT}


@pytest.mark.parametrize("state", STATES)
def test_ids_at_rest_expire(state: S) -> None:
    made = table(state)
    due_ms = 1_000 + CoordinatorConfig().transactional_id_expiration_ms
    assert made.expired(["x"], due_ms - 1) == []
    changes = made.expired(["unknown", "x"], due_ms)
    assert made.expired(["x"], due_ms) == [], "it is on its way out"
    assert [change.transactional_id for change in changes] == ["x"] * (state in EXPIRING)
    for change in changes:
        assert outcome(made, init(made)) == CONCURRENT
        made.applied(change)
    assert ("x" in made.entries) == (state not in EXPIRING)


# Verification (KIP-890) ---------------------------------------------------------------------


@pytest.mark.parametrize("pending", [None, S.ONGOING])
def test_verify_tells_what_is_in_the_open_transaction(pending: S | None) -> None:
    made = table(S.ONGOING, pending=pending)
    assert made.verify(write(ID, EPOCH, T0, T1)) == {
        T0: NONE,
        T1: ErrorCode.TRANSACTION_ABORTABLE,
    }


@pytest.mark.parametrize(
    ("state", "producer_id", "epoch", "code"),
    [
        (None, ID, EPOCH, MAPPING),
        (S.ONGOING, 77, EPOCH, MAPPING),
        (S.ONGOING, ID, EPOCH - 1, FENCED),
        (S.PREPARE_COMMIT, ID, EPOCH, CONCURRENT),
        (S.PREPARE_ABORT, ID, EPOCH, CONCURRENT),
    ],
)
def test_verify_refuses(state: S | None, producer_id: int, epoch: int, code: ErrorCode) -> None:
    with pytest.raises(ApiError) as raised:
        table(state).verify(write(producer_id, epoch, T0))
    assert raised.value.code is code


@pytest.mark.parametrize("state", sorted(EXPIRING))
def test_nothing_is_in_a_transaction_that_is_not_open(state: S) -> None:
    assert table(state).verify(write(ID, EPOCH, T0)) == {T0: ErrorCode.TRANSACTION_ABORTABLE}


# Bounds and shapes --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"transaction_timeout_ms": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"transaction_timeout_ms": 900_001}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_init_refuses(changes: dict[str, object], code: ErrorCode) -> None:
    made = table(None)
    request = replace(InitProducerIdRequest("x", 900_000), **changes)
    with pytest.raises(ApiError) as raised:
        made.init_producer_id(request, NOW, 99)
    assert raised.value.code is code
    assert made.entries == {}


def test_the_number_of_ids_is_bounded() -> None:
    made = TransactionTable(CoordinatorConfig(max_transactional_ids=1))
    made.replay("x", metadata(S.EMPTY), 0)
    with pytest.raises(ApiError) as raised:
        made.init_producer_id(InitProducerIdRequest("y", 1), NOW, 99)
    assert raised.value.code is ErrorCode.POLICY_VIOLATION
    assert outcome(made, init(made)) == S.EMPTY


def test_a_first_record_that_is_refused_leaves_nothing() -> None:
    made = table(None)
    made.refused(init(made)())
    assert made.entries == {}
    made = table(S.EMPTY)
    made.refused(add(made)())
    assert made.entries["x"].pending is None
    assert outcome(made, add(made)) == S.ONGOING
