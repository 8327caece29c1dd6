"""A shard in miniature: state, clock, and the log that every outcome is appended to and replayed
from. Handlers run as the real shard runs them; nothing is mocked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.assignors.api import Assignment, GroupSpec, TopicDescriber
from groupd.coordinator.core.consumer_group import (
    fence,
    heartbeat,
    records,
    regex,
    shared_target,
    subscription,
    timers,
)
from groupd.coordinator.core.consumer_group.group import (
    ANSWER,
    PATIENCE,
    TARGET,
    TYPE_NAME,
    ConsumerGroup,
)
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.consumer_group.soft_state import SoftState
from groupd.coordinator.core.consumer_group.subscription import TopicsChange, metadata_hash
from groupd.coordinator.core.deadlines import DeadlineKey
from groupd.coordinator.core.epochs import schedule_refresh
from groupd.coordinator.core.interop.migration import CONVERSIONS
from groupd.coordinator.core.metadata_image import MetadataDelta, MetadataImage, TopicImage
from groupd.coordinator.core.slices import run_through
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import (
    Event,
    EventKind,
    Instant,
    Outcome,
    RequestContext,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatReply,
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from groupd.protocol.records.schema import (
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegexKey,
    ConsumerGroupTargetMemberKey,
    ConsumerGroupTargetMetadataKey,
    GroupMetadataKey,
    Record,
)
from tests.support.access import ByRule, allow_all
from tests.support.replaying import apply

GROUP = "g"
FOO, BAR, BAZ = (bytes([number]) * 16 for number in (1, 2, 3))
TOKEN = 7
NUMBERS = {
    GroupMetadataKey: "2",
    ConsumerGroupMetadataKey: "3",
    ConsumerGroupPartitionMetadataKey: "4",
    ConsumerGroupMemberMetadataKey: "5",
    ConsumerGroupTargetMetadataKey: "6",
    ConsumerGroupTargetMemberKey: "7",
    ConsumerGroupCurrentMemberKey: "8",
    ConsumerGroupRegexKey: "16",
}
SHORT = {
    "regex": "subscribed_topic_regex",
    "instance": "instance_id",
    "rack": "rack_id",
    "assignor": "server_assignor",
    "timeout": "rebalance_timeout_ms",
}
Names = Mapping[bytes, Any]


def topic(name: str, topic_id: bytes, partitions: int = 6, racks: Any = ()) -> TopicImage:
    return TopicImage(topic_id, name, partitions, racks=racks)


def owned(partitions: Names) -> tuple[TopicPartitions, ...]:
    return tuple(TopicPartitions(topic_id, tuple(partitions[topic_id])) for topic_id in partitions)


def parts(assignment: tuple[TopicPartitions, ...] | None) -> dict[bytes, list[int]] | None:
    if assignment is None:
        return None
    return {one.topic_id: list(one.partitions) for one in assignment}


def shape(written: list[Record]) -> list[str]:
    """The types of the records: R5 for a value of type 5, T5 for its tombstone."""
    return [("T" if one.value is None else "R") + NUMBERS[type(one.key)] for one in written]


@dataclass
class Scripted:
    """Returns the prepared target: member id -> topic id -> partitions."""

    name: str = "uniform"
    target: dict[str, dict[bytes, Any]] = field(default_factory=dict)
    fails: Exception | None = None
    calls: int = 0
    seen: GroupSpec | None = None

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> Mapping[str, Assignment]:
        self.calls += 1
        self.seen = spec
        if self.fails is not None:
            raise self.fails
        return self.target


class EvenSpread:
    """Deals partitions of each topic to its subscribers in turn."""

    def __init__(self, name: str = "uniform") -> None:
        self.name = name

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> Mapping[str, Assignment]:
        result: dict[str, dict[bytes, tuple[int, ...]]] = {one: {} for one in spec.members}
        topic_ids = {topic_id for one in spec.members.values() for topic_id in one.topic_ids}
        for topic_id in sorted(topic_ids):
            takers = [one for one, its in spec.members.items() if topic_id in its.topic_ids]
            for place, taker in enumerate(takers):
                dealt = tuple(range(place, topics.num_partitions(topic_id), len(takers)))
                if dealt:
                    result[taker][topic_id] = dealt
        return result


class Shard:
    """`heartbeat` handles, appends and replays; the last outcome stays in `outcome`."""

    def __init__(self, *topics: TopicImage, assignor: Any = None, **settings: Any) -> None:
        settings.setdefault("consumer_assignment_interval_ms", 0)
        settings.setdefault("consumer_target_linger_ms", 0)
        self.assignor = assignor or EvenSpread()
        other = EvenSpread("range")
        self.ids = 0
        self.state = ShardState(
            config=CoordinatorConfig(**settings),
            new_id=self._new_id,
            assignors={self.assignor.name: self.assignor, other.name: other},
            image=MetadataImage(topics, version=1),
        )
        self.state.soft[TYPE_NAME] = SoftState(CONVERSIONS)
        self.log: list[Record] = []
        self.now = Instant(1_000, 1_700_000_000_000)
        self.outcome = Outcome()
        self.allows = allow_all

    def _new_id(self) -> str:
        self.ids += 1
        return f"generated-{self.ids}"

    # Inputs

    def context(self, api_version: int = 1, client_id: str = "client") -> RequestContext:
        return RequestContext(TOKEN, api_version, client_id, "/127.0.0.1", ByRule(self.allows))

    def handle(self, epoch: int, member: str = "m1", **fields: Any) -> Outcome:
        """The handler's outcome, not applied. Epoch 0 joins with whatever is not given."""
        names = fields.pop("names", None)
        if isinstance(fields.get("owned"), dict):
            fields["owned"] = owned(fields["owned"])
        holds = fields.pop("owned", None)
        client_id = fields.pop("client_id", "client")
        if epoch == 0:
            fields.setdefault("rebalance_timeout_ms", 60_000)
            if names is None and "subscribed_topic_regex" not in fields:
                names = ["foo"]
            holds = holds or ()
        request = ConsumerGroupHeartbeatRequest(
            fields.pop("group", GROUP),
            member,
            epoch,
            subscribed_topic_names=None if names is None else tuple(names),
            topic_partitions=None if holds is None else tuple(holds),
            **fields,
        )
        return heartbeat.handle(self.state, self.context(client_id=client_id), request, self.now)

    def beat(self, epoch: int, member: str = "m1", **fields: Any) -> ConsumerGroupHeartbeatReply:
        """Sends one heartbeat and applies it; the names of `fields` may be those of `SHORT`."""
        self.send(epoch, member, **fields)
        ((token, reply),) = self.outcome.replies
        assert token == TOKEN
        assert isinstance(reply, ConsumerGroupHeartbeatReply)
        return reply

    def send(self, epoch: int, member: str = "m1", **fields: Any) -> Outcome:
        """The same as `beat`, but the reply may come later. Returns the outcome."""
        long = {SHORT.get(name, name): value for name, value in fields.items()}
        self.apply(self.handle(epoch, member, **long))
        return self.outcome

    def refused(self, epoch: int, member: str = "m1", **fields: Any) -> ErrorCode:
        """The code of a heartbeat that must fail and leave no trace."""
        before = snapshot(self.state), self.state.deadlines.items()
        try:
            self.beat(epoch, member, **fields)
        except ApiError as error:
            assert (snapshot(self.state), self.state.deadlines.items()) == before
            return error.code
        raise AssertionError(f"accepted: {self.outcome}")

    def apply(self, outcome: Outcome) -> None:
        """Appends and replays an outcome. Without a linger its target follows at once: what that
        leads to is added to the outcome."""
        self.outcome = outcome
        for record in outcome.records:
            self.replay(record)
        if not self.state.config.consumer_target_linger_ms:
            while (key := self._due_target()) is not None:
                self._add(shared_target.expire(self.state, key, self.now))

    def _due_target(self) -> DeadlineKey | None:
        deadlines = self.state.deadlines
        for key, at_ms in deadlines.items():
            if key[0] in (TARGET, ANSWER) and at_ms <= self.now.monotonic_ms:
                deadlines.cancel(key)
                return key
        return None

    def _add(self, more: Outcome) -> None:
        for record in more.records:
            self.replay(record)
        self.outcome.records += more.records
        self.outcome.replies += more.replies
        self.outcome.events += more.events
        self.outcome.tasks += more.tasks

    def replay(self, record: Record) -> None:
        if isinstance(record.key, GroupMetadataKey):
            assert record.value is None
            self.state.groups.pop(record.key.group, None)
        else:
            apply(self.state, record)
        self.log.append(record)

    def advance(self, ms: int) -> None:
        """Lets time pass; nothing fires."""
        self.now = Instant(self.now.monotonic_ms + ms, self.now.wall_ms + ms)

    def fire(self) -> list[Outcome]:
        """Fires everything that is due by now; the outcomes, applied."""
        outcomes = []
        for key in self.state.deadlines.pop_due(self.now.monotonic_ms):
            shared = key[0] in (TARGET, ANSWER, PATIENCE)
            self.apply((shared_target if shared else fence).expire(self.state, key, self.now))
            outcomes.append(self.outcome)
        return outcomes

    def finish_task(self, result: Any = None) -> Outcome:
        """Runs the last outcome's task and feeds its result back."""
        (task,) = self.outcome.tasks
        found = run_through(task.steps()) if result is None else result
        self.apply(regex.complete(self.state, task, found, self.now))
        return self.outcome

    def topics(self, *topics: TopicImage) -> None:
        """Gives the shard a new metadata image, with the delta to the last one."""
        old = self.state.image
        created = frozenset(one.name for one in topics if one.topic_id not in old.by_id)
        changed = frozenset(
            one.name
            for one in topics
            if one.topic_id in old.by_id and old.by_id[one.topic_id] != one
        )
        new_ids = {one.topic_id for one in topics}
        deleted = tuple(
            (one.name, one.topic_id) for one in old.by_id.values() if one.topic_id not in new_ids
        )
        version = old.version + 1
        image = MetadataImage(topics, version, version if created else old.created_version)
        self.state.image = image
        delta = MetadataDelta(image, created, changed, deleted)
        subscription.on_metadata(self.state, delta, self.now)

    def reload(self) -> None:
        """Builds a fresh state from the log, as after a restart."""
        self.state = replayed(self)
        self.apply(timers.on_loaded(self.state, self.now))

    # Given states

    def put_member(self, member_id: str, **changes: Any) -> ConsumerGroupMember:
        """Puts in R5 and R8 of a member that is at epoch 10 and subscribes to foo, unless told
        otherwise."""
        defaults: dict[str, Any] = {
            "member_epoch": 10,
            "previous_member_epoch": 10,
            "rebalance_timeout_ms": 60_000,
            "client_id": "client",
            "client_host": "/127.0.0.1",
            "subscribed_topic_names": ("foo",),
        }
        member = replace(ConsumerGroupMember(member_id), **{**defaults, **changes})
        self.replay(records.member_metadata(GROUP, member))
        self.replay(records.current_member(GROUP, member))
        return member

    def settle(self, epoch: int = 10, **targets: dict[bytes, Any]) -> None:
        """Puts in R3 with the right hash, R7 of each target, and R6; metadata counts as just
        refreshed."""
        image_hash = metadata_hash(self.group, self.state.image, TopicsChange())
        self.replay(records.group_epoch(GROUP, epoch, image_hash))
        for member_id, target in targets.items():
            self.replay(records.target_member(GROUP, member_id, target))
        self.replay(records.target_epoch(GROUP, epoch, 0))
        schedule_refresh(self.group, epoch, self.now)

    # What is there

    @property
    def group(self) -> ConsumerGroup:
        group = self.state.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    def member(self, member_id: str = "m1") -> ConsumerGroupMember:
        return self.group.members[member_id]

    def shape(self) -> list[str]:
        return shape(self.outcome.records)

    def events(self, kind: EventKind) -> list[Event]:
        return [event for event in self.outcome.events if event.kind is kind]

    def due(self, kind: str, member: str = "m1") -> int | None:
        """The milliseconds until the deadline; None if it is not set."""
        at_ms = self.state.deadlines.due((f"consumer-{kind}", GROUP, member))
        return None if at_ms is None else at_ms - self.now.monotonic_ms


def replayed(shard: Shard) -> ShardState:
    """What the shard's log builds from nothing."""
    fresh = ShardState(
        config=shard.state.config,
        new_id=shard.state.new_id,
        assignors=shard.state.assignors,
        image=shard.state.image,
        group_configs=shard.state.group_configs,
        soft={TYPE_NAME: SoftState()},
    )
    for record in shard.log:
        apply(fresh, record)
    return fresh


def snapshot(state: ShardState) -> dict[str, Any]:
    """Hard state and the indexes over it, comparable."""
    found = {}
    for group_id, group in state.groups.items():
        if not isinstance(group, ConsumerGroup):
            found[group_id] = group
            continue
        found[group_id] = {
            "epochs": (group.group_epoch, group.assignment_epoch, group.assignment_timestamp_ms),
            "hash": group.metadata_hash,
            "legacy": group.has_partition_metadata,
            "members": dict(group.members),
            "static": dict(group.static_members),
            "targets": {one: dict(target) for one, target in group.targets.items()},
            "regexes": dict(group.regexes.items()),
            "regex_topics": dict(group.regexes.topics),
            "counts": (
                dict(group.name_subscribers),
                dict(group.regex_subscribers),
                dict(group.assignor_votes),
            ),
            "holders": {one: dict(its) for one, its in group.partition_epochs.items()},
            "state": group.state_name(),
        }
    return found
