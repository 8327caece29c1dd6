"""Records of every type that is held, as hypothesis strategies."""

from __future__ import annotations

from hypothesis import strategies as st

from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.records.schema import (
    AssignedTopic,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupCurrentMemberValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegexKey,
    ConsumerGroupRegexValue,
    ConsumerGroupTargetMemberKey,
    ConsumerGroupTargetMemberValue,
    ConsumerGroupTargetMetadataKey,
    ConsumerGroupTargetMetadataValue,
    GroupMetadataKey,
    GroupMetadataMember,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    OwnedTopic,
    RecordKey,
    RecordValue,
    ShareGroupCurrentMemberKey,
    ShareGroupCurrentMemberValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionsKey,
    ShareGroupStatePartitionsValue,
    ShareGroupTargetMemberKey,
    ShareGroupTargetMemberValue,
    ShareGroupTargetMetadataKey,
    ShareGroupTargetMetadataValue,
    ShareStatePartitions,
)

_STRING = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_MAYBE = st.none() | _STRING
_INT32 = st.integers(-(2**31), 2**31 - 1)
_INT64 = st.integers(-(2**63), 2**63 - 1)
_ID = st.binary(min_size=16, max_size=16)
_PARTITIONS = st.lists(_INT32, max_size=4).map(tuple)


def _tuples(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(strategy, max_size=3).map(tuple)


_OWNED = st.builds(OwnedTopic, _ID, _PARTITIONS) | _PARTITIONS.flatmap(
    lambda partitions: st.builds(
        OwnedTopic, _ID, st.just(partitions), st.just(tuple(-p - 1 for p in partitions))
    )
)
_CLASSIC = st.builds(
    ClassicMemberMetadata, _INT32, _tuples(st.builds(ClassicProtocol, _STRING, st.binary()))
)

_ASSIGNED = _tuples(st.builds(AssignedTopic, _ID, _PARTITIONS))
_STATE_PARTITIONS = _tuples(st.builds(ShareStatePartitions, _ID, _STRING, _PARTITIONS))


def records(
    times: st.SearchStrategy[int] = _INT64,
) -> st.SearchStrategy[tuple[RecordKey, RecordValue]]:
    """Keys and values that can be written. `times`: where all timestamps come from, in
    milliseconds."""
    return st.one_of(
        st.tuples(
            st.builds(OffsetCommitKey, _STRING, _STRING, _INT32),
            st.builds(OffsetCommitValue, _INT64, _INT32, _STRING, times, st.just(-1), _ID)
            | st.builds(
                OffsetCommitValue,
                _INT64,
                st.just(-1),
                _STRING,
                times,
                times.filter(lambda time_ms: time_ms >= 0),
                st.just(NO_TOPIC_ID),
            ),
        ),
        st.tuples(
            st.builds(GroupMetadataKey, _STRING),
            st.builds(
                GroupMetadataValue,
                _STRING,
                _INT32,
                _MAYBE,
                _MAYBE,
                times,
                _tuples(
                    st.builds(
                        GroupMetadataMember,
                        _STRING,
                        _MAYBE,
                        _STRING,
                        _STRING,
                        _INT32,
                        _INT32,
                        st.binary(),
                        st.binary(),
                    )
                ),
            ),
        ),
        st.tuples(
            st.builds(ConsumerGroupMetadataKey, _STRING),
            st.builds(ConsumerGroupMetadataValue, _INT32, _INT64),
        ),
        st.tuples(
            st.builds(ConsumerGroupMemberMetadataKey, _STRING, _STRING),
            st.builds(
                ConsumerGroupMemberMetadataValue,
                _MAYBE,
                _MAYBE,
                _STRING,
                _STRING,
                _tuples(_STRING),
                _MAYBE,
                _INT32,
                _MAYBE,
                st.none() | _CLASSIC,
            ),
        ),
        st.tuples(
            st.builds(ConsumerGroupTargetMetadataKey, _STRING),
            st.builds(ConsumerGroupTargetMetadataValue, _INT32, times),
        ),
        st.tuples(
            st.builds(ConsumerGroupTargetMemberKey, _STRING, _STRING),
            st.builds(ConsumerGroupTargetMemberValue, _ASSIGNED),
        ),
        st.tuples(
            st.builds(ConsumerGroupCurrentMemberKey, _STRING, _STRING),
            st.builds(
                ConsumerGroupCurrentMemberValue,
                _INT32,
                _INT32,
                st.integers(0, 2),
                _tuples(_OWNED),
                _tuples(_OWNED),
            ),
        ),
        st.tuples(
            st.builds(ConsumerGroupRegexKey, _STRING, _STRING),
            st.builds(ConsumerGroupRegexValue, _tuples(_STRING), _INT64, times),
        ),
        st.tuples(
            st.builds(ShareGroupMemberMetadataKey, _STRING, _STRING),
            st.builds(ShareGroupMemberMetadataValue, _MAYBE, _STRING, _STRING, _tuples(_STRING)),
        ),
        st.tuples(
            st.builds(ShareGroupMetadataKey, _STRING),
            st.builds(ShareGroupMetadataValue, _INT32, _INT64),
        ),
        st.tuples(
            st.builds(ShareGroupTargetMetadataKey, _STRING),
            st.builds(ShareGroupTargetMetadataValue, _INT32, times),
        ),
        st.tuples(
            st.builds(ShareGroupTargetMemberKey, _STRING, _STRING),
            st.builds(ShareGroupTargetMemberValue, _ASSIGNED),
        ),
        st.tuples(
            st.builds(ShareGroupCurrentMemberKey, _STRING, _STRING),
            st.builds(ShareGroupCurrentMemberValue, _INT32, _INT32, st.integers(0, 2), _ASSIGNED),
        ),
        st.tuples(
            st.builds(ShareGroupStatePartitionsKey, _STRING),
            st.builds(
                ShareGroupStatePartitionsValue,
                _STATE_PARTITIONS,
                _STATE_PARTITIONS,
                _tuples(st.tuples(_ID, _STRING)),
            ),
        ),
    )
