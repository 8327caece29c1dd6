"""The store against a plain model: whatever the order of commits, tombstones and markers, its
counter and its index of pending partitions agree with what it holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from groupd.coordinator.core.offsets.replay import apply_marker
from groupd.coordinator.core.offsets.store import OffsetStore, StoredOffset
from groupd.protocol.records.schema import OffsetCommitValue
from tests.support.examples import examples

PLACES = st.tuples(st.sampled_from(["g", "h"]), st.sampled_from(["t", "u"]), st.integers(0, 1))
PRODUCERS = st.integers(1, 3)
STEPS = st.one_of(
    st.tuples(st.just("put"), PLACES),
    st.tuples(st.just("pend"), PLACES, PRODUCERS),
    st.tuples(st.just("remove"), PLACES),
    st.tuples(st.sampled_from(["commit", "abort"]), PRODUCERS),
)


@examples(200)
@given(steps=st.lists(STEPS, max_size=30))
def test_store_agrees_with_a_model(steps: list[tuple]) -> None:
    store = OffsetStore()
    committed: dict[tuple, int] = {}
    pending: dict[tuple, int] = {}
    for at, (step, *args) in enumerate(steps):
        if step == "put":
            store.put(*args[0], StoredOffset.of(OffsetCommitValue(at), at))
            committed[args[0]] = at
        elif step == "pend":
            place, producer = args
            store.put_pending(producer, *place, StoredOffset.of(OffsetCommitValue(at), at))
            pending[producer, place] = at
        elif step == "remove":
            store.remove(*args[0])
            committed.pop(args[0], None)
            pending = {key: value for key, value in pending.items() if key[1] != args[0]}
        else:
            apply_marker(store, args[0], commit=step == "commit")
            for key in [key for key in pending if key[0] == args[0]]:
                value = pending.pop(key)
                if step == "commit":
                    committed[key[1]] = max(value, committed.get(key[1], -1))
    held = {
        (group, topic, partition): stored.log_offset
        for group in "gh"
        for topic, partitions in store.topics(group).items()
        for partition, stored in partitions.items()
    }
    assert held == committed
    assert store.count == len(committed)
    indexed = {
        (producer, (group, *place))
        for group in "gh"
        for place, producers in store.pending(group).items()
        for producer in producers
    }
    assert indexed == set(pending)
    for _, place in pending:
        values = sorted(value for key, value in pending.items() if key[1] == place)
        assert sorted(value.offset for value in store.all_pending(*place)) == values
