"""Logs that the coordinator's own core writes, as entries of the folds."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any

from groupd.coordinator.core.assignors.api import Assignment, GroupSpec, TopicDescriber
from groupd.coordinator.core.assignors.loader import BUILT_IN, load_assignors
from groupd.coordinator.core.assignors.spec import AssignmentSpec
from groupd.coordinator.core.assignors.uniform import UniformAssignor
from groupd.coordinator.core.metadata_image import TopicImage
from groupd.coordinator.logtools.entries import TYPE_NAMES
from groupd.pipeline.fold.entry import FoldEntry, FoldFacts, FoldObserver
from groupd.pipeline.fold.groups import GroupsFold
from groupd.pipeline.fold.state import Settings, TopicNames
from groupd.pipeline.values import key_columns, topic_id_text, value_of
from groupd.protocol.messages.consumer_group import TopicPartitions
from groupd.protocol.records.batch_builder import encode_batch
from groupd.protocol.records.codec import encode_key, encode_value, record_type
from groupd.protocol.records.schema import Record
from tests.unit.consumer_group.harness import GROUP, Shard, owned

TABLES = ("members", "member_epochs", "ownership", "rebalances", "rebalance_moves")
_TIMES = {
    "commit_time": "commit_ms",
    "expire_time": "expire_ms",
    "current_state_time": "current_state_ms",
    "assignment_time": "assignment_ms",
}


def entry_of(offset: int, at_ms: int, record: Record, log_partition: int = 0) -> FoldEntry:
    """The entry that the Spark pass would give the fold."""
    kind = record_type(encode_key(record.key))
    assert kind in TYPE_NAMES
    member, topic, partition = key_columns(record)
    value = value_of(record)
    if value is not None:
        value = {
            _TIMES.get(name, name): one // 1000 if name in _TIMES and one is not None else one
            for name, one in value.items()
        }
    return FoldEntry(
        log_partition,
        offset,
        at_ms,
        kind,
        record.key.group,
        member or "",
        topic or "",
        -1 if partition is None else partition,
        record.value is None,
        value=value,
    )


class UniformByIds(UniformAssignor):
    """Gives free partitions in the order of member ids: who speaks soonest is not in the log, so
    jobs could not do the same again."""

    def assign_steps(
        self, spec: GroupSpec, topics: TopicDescriber
    ) -> Generator[None, None, Mapping[str, Assignment]]:
        assert isinstance(spec, AssignmentSpec)
        spec.next_heartbeat = None
        return super().assign_steps(spec, topics)


class TimedShard(Shard):
    """A shard of the core with real assignors that remembers when each record was written, and
    clients that answer what they are told."""

    def __init__(self, *topics: TopicImage, assignor: str = "uniform", **settings: Any) -> None:
        settings["consumer_assignors"] = (assignor,)
        super().__init__(*topics, **settings)
        self.state.assignors = {**load_assignors(sorted(BUILT_IN)), "uniform": UniformByIds()}
        self.times: list[int] = []
        self.told: dict[str, tuple[int, tuple[TopicPartitions, ...]]] = {}

    def replay(self, record: Record) -> None:
        super().replay(record)
        self.times.append(self.now.wall_ms)

    def entries(self) -> list[FoldEntry]:
        return [
            entry_of(offset, at_ms, record)
            for offset, (at_ms, record) in enumerate(zip(self.times, self.log, strict=True))
        ]

    def join(self, member: str, **fields: Any) -> None:
        self.told[member] = (0, ())
        self.say(member, **fields)

    def say(self, member: str, **fields: Any) -> None:
        """One heartbeat that confirms what the client has been told."""
        epoch, holds = self.told[member]
        reply = self.beat(epoch, member, owned=holds, **fields)
        given = holds if reply.assignment is None else reply.assignment
        self.told[member] = (reply.member_epoch, tuple(given))

    def leave(self, member: str, epoch: int = -1, **fields: Any) -> None:
        self.told.pop(member)
        self.beat(epoch, member, **fields)

    def settle_all(self, step_ms: int = 0) -> None:
        """Lets all heartbeat in turn until the group is stable; `step_ms` pass before each
        heartbeat."""
        for _ in range(20):
            for member in sorted(self.told):
                self.advance(step_ms)
                self.say(member)
            if self.group.state_name() in ("Stable", "Empty"):
                return
        raise AssertionError("the group does not become stable")

    def payloads(self) -> list[bytes]:
        """The log as it is stored, a batch a record."""
        return [
            encode_batch(offset, 0, at_ms, [(encode_key(record.key), encode_value(record))])
            for offset, (at_ms, record) in enumerate(zip(self.times, self.log, strict=True))
        ]

    def names(self) -> dict[str, str]:
        return {topic_id_text(one.topic_id) or "": one.name for one in self.all_topics()}

    def all_topics(self) -> Iterable[TopicImage]:
        return self.state.image.by_name.values()


def facts_of(
    entries: Iterable[FoldEntry],
    names: Mapping[str, str],
    settings: Settings | None = None,
    observers: Iterable[FoldObserver] = (),
    tables: Iterable[str] = TABLES,
) -> dict[str, list[dict[str, Any]]]:
    """All rows by table."""
    facts = FoldFacts(frozenset(tables))
    fold = GroupsFold(facts, TopicNames(names), settings, tuple(observers))
    for entry in entries:
        fold.feed(entry)
    fold.finish()
    found: dict[str, list[dict[str, Any]]] = {table: [] for table in tables}
    for table, row in facts.take():
        found[table].append(row)
    return found


__all__ = ["GROUP", "TABLES", "TimedShard", "entry_of", "facts_of", "owned"]
