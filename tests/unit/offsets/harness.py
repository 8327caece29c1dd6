"""A small shard for the tests: real offset manager, scripted groups, records replayed at
consecutive log offsets as the journal does."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.deadlines import Deadlines
from groupd.coordinator.core.frontend.offsets import (
    admit_commit,
    admit_delete,
    admit_fetch,
    admit_txn_commit,
)
from groupd.coordinator.core.group import ExpirationBase
from groupd.coordinator.core.metadata_image import MetadataImage, TopicImage
from groupd.coordinator.core.offset_metadata_manager import OffsetMetadataManager
from groupd.coordinator.core.offsets.commit import commit_offsets, commit_txn_offsets
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import AppliedAt, Instant, Outcome, RequestContext
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.offsets import (
    CommitPartition,
    CommitTopic,
    FetchTopic,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    TxnOffsetCommitRequest,
    commit_topic,
)
from groupd.protocol.records.schema import GroupMetadataKey, OffsetCommitKey, Record
from tests.support.access import ByRule, allow_all

T1_ID, T2_ID, OLD_ID = b"1" * 16, b"2" * 16, b"0" * 15 + b"9"
DAY_MS = 24 * 60 * 60 * 1000


def commit_time(timestamp_ms: int) -> int | None:
    return timestamp_ms


@dataclass
class ScriptedGroup:
    """Implements `OffsetOwner`: verdicts come from the test, which may look at the calls."""

    group_id: str
    type_name: str = "classic"
    protocol_type: str = ""
    state: str = "Empty"
    commit_error: ErrorCode = ErrorCode.NONE
    fetch_error: ErrorCode = ErrorCode.NONE
    delete_error: ErrorCode = ErrorCode.NONE
    subscribed: frozenset[str] = frozenset()
    subscribed_to_all: bool = False
    base: ExpirationBase = commit_time
    commit_checks: list[dict[str, Any]] = field(default_factory=list)
    fetch_checks: list[tuple[str | None, int]] = field(default_factory=list)
    session_restarts: list[tuple[str, str | None, int]] = field(default_factory=list)

    members: dict[str, Any] = field(default_factory=dict)
    epoch: int = 0

    @property
    def offset_owner(self) -> ScriptedGroup | None:
        return None if self.type_name == "share" else self

    def state_name(self) -> str:
        return self.state

    def is_empty(self) -> bool:
        return self.state == "Empty"

    def awaits_members(self) -> bool:
        return False

    def admits_classic_members(self) -> bool:
        return False

    def check_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation_or_epoch: int,
        topics: Sequence[CommitTopic],
        *,
        api_version: int,
        transactional: bool,
        too_long: Set[tuple[str, int]],
    ) -> None:
        self.commit_checks.append(
            {
                "member": (member_id, instance_id, generation_or_epoch),
                "version": api_version,
                "transactional": transactional,
                "checked": [
                    (topic.name, topic.topic_id, entry.partition)
                    for topic in topics
                    for entry in topic.partitions
                    if (topic.name, entry.partition) not in too_long
                ],
            }
        )
        _raise(self.commit_error)

    def on_offset_commit(
        self, member_id: str, instance_id: str | None, now: Instant, deadlines: Deadlines
    ) -> None:
        self.session_restarts.append((member_id, instance_id, now.monotonic_ms))

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        self.fetch_checks.append((member_id, member_epoch))
        _raise(self.fetch_error)

    def check_offset_delete(self) -> None:
        _raise(self.delete_error)

    def check_delete(self) -> None:
        if not self.is_empty():
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        return self.subscribed_to_all or topic in self.subscribed

    def offset_expiration_base(self) -> ExpirationBase:
        return self.base

    def tombstones(self) -> list[Record]:
        return [Record(GroupMetadataKey(self.group_id))]

    def cancel_deadlines(self, deadlines: Deadlines) -> None:
        """Does nothing: no deadline runs."""


def _raise(code: ErrorCode) -> None:
    if code:
        raise ApiError(code)


class Shard:
    """`commit`, `fetch`... go through the front end and the manager, as a request does; what
    they return is the reply. The outcome of the last call is in `outcome` (None: the shard was
    not asked)."""

    def __init__(self) -> None:
        self.state = ShardState(
            CoordinatorConfig(),
            new_id=lambda: "id",
            assignors={},
            image=MetadataImage([TopicImage(T1_ID, "t1", 10), TopicImage(T2_ID, "t2", 2)]),
        )
        self.state.simple_group = ScriptedGroup
        self.offsets = OffsetMetadataManager(self.state)
        self.now = Instant(1000, 100 * DAY_MS)
        self.end = 0
        self.allows = allow_all
        self.outcome: Outcome | None = None

    def group(self, group_id: str = "g", **script: Any) -> ScriptedGroup:
        group = self.state.groups[group_id] = ScriptedGroup(group_id, **script)
        return group

    def apply(self, outcome: Outcome) -> Outcome:
        producer_id, epoch = outcome.transaction or (-1, -1)
        for record in outcome.logged:
            if isinstance(record.key, OffsetCommitKey):
                self.offsets.replay(record, AppliedAt(self.end, producer_id, epoch))
            else:
                self.state.groups.pop(record.key.group, None)
            self.end += 1
        self.outcome = outcome
        return outcome

    def context(self, version: int) -> RequestContext:
        return RequestContext(7, version, access=ByRule(self.allows))

    def _run(self, admit: Any, handle: Any, request: Any, version: int) -> Any:
        context = self.context(version)
        self.outcome = None
        admitted, finish = admit(context, request, self.state.image)
        if admitted is None:
            return finish(None)
        outcome = self.apply(handle(context, admitted, self.now))
        ((token, reply),) = outcome.replies
        assert token == context.token
        assert outcome.gate == admitted.group_id
        return reply if finish is None else finish(reply)

    def commit(
        self, *topics: CommitTopic, group: str = "g", version: int = 9, **fields: Any
    ) -> Any:
        request = OffsetCommitRequest(group, topics, **fields)
        return self._run(admit_commit, partial(commit_offsets, self.state), request, version)

    def txn_commit(
        self,
        *topics: CommitTopic,
        group: str = "g",
        version: int = 5,
        producer: int = 1,
        **fields: Any,
    ) -> Any:
        request = TxnOffsetCommitRequest("tid", group, producer, 0, topics, **fields)
        return self._run(
            admit_txn_commit, partial(commit_txn_offsets, self.state), request, version
        )

    def fetch(self, *topics: FetchTopic, group: str = "g", version: int = 9, **fields: Any) -> Any:
        request = OffsetFetchGroup(group, topics, **fields)
        return self._run(admit_fetch, self.offsets.fetch, request, version)

    def fetch_all(self, group: str = "g", version: int = 9, **fields: Any) -> Any:
        request = OffsetFetchGroup(group, None, **fields)
        return self._run(admit_fetch, self.offsets.fetch, request, version)

    def delete(self, *topics: FetchTopic, group: str = "g") -> Any:
        request = OffsetDeleteRequest(group, topics)
        return self._run(admit_delete, self.offsets.delete, request, 0)

    def marker(self, producer: int = 1, *, commit: bool) -> None:
        self.offsets.replay_marker(producer, commit=commit)
        self.end += 1

    def offset(self, partition: int = 0, topic: str = "t1", group: str = "g") -> int | None:
        """The committed offset in the store."""
        stored = self.offsets.store.get(group, topic, partition)
        return None if stored is None else stored.offset


def topic(name: str = "t1", /, topic_id: bytes = bytes(16), **offsets: Any) -> CommitTopic:
    """`topic("t1", p0=5, p3=7)`; a value may be a whole CommitPartition."""
    return commit_topic(
        name,
        tuple(
            value if isinstance(value, CommitPartition) else CommitPartition(int(key[1:]), value)
            for key, value in offsets.items()
        ),
        topic_id,
    )


def codes(reply: Any) -> dict[tuple[str, int], int]:
    """(topic, partition) -> error code of a commit, delete or fetch reply."""
    return {
        (entry.name, partition.partition): int(partition.error)
        for entry in reply.topics
        for partition in entry.partitions
    }


def offsets(reply: Any) -> dict[tuple[str, int], int]:
    assert reply.error == 0
    return {
        (entry.name, partition.partition): partition.offset
        for entry in reply.topics
        for partition in entry.partitions
    }


def places(outcome: Outcome) -> list[tuple[str, int]]:
    """What the offset tombstones of an outcome name, in order."""
    assert all(record.value is None for record in outcome.records)
    return [
        (record.key.topic, record.key.partition)
        for record in outcome.records
        if isinstance(record.key, OffsetCommitKey)
    ]
