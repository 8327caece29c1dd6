"""Follows groups along the log and notes what goes wrong while it happens: storms, flapping
members, conflicts over a static instance, partitions without an owner, commits by members that do
not own the partition. What only the end of the log shows is in `pipeline.fold.checkup`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from groupd.pipeline.fold.checkup import Checkup, NamedPlace, PresentOffsets
from groupd.pipeline.fold.entry import FactRow, FoldEntry, FoldFacts, FoldObserver
from groupd.pipeline.fold.findings import (
    CONFLICT,
    FLAPPING,
    MANY,
    UNFINISHED,
    UNOWNED,
    ZOMBIE,
    Episode,
    Occurrences,
    Thresholds,
    duration,
    finding,
    times,
)
from groupd.pipeline.fold.groups import place_of
from groupd.pipeline.fold.state import (
    REPLACED,
    STABLE,
    FoldedGroup,
    MemberInterval,
    MembershipEnd,
    OwnedPartition,
    Rebalance,
    TopicNames,
)
from groupd.pipeline.fold.storms import Storms


class _Watch(Struct):
    """What is remembered about one group."""

    storms: Storms
    flapping: dict[str, Episode] = field(default_factory=dict)
    conflicts: dict[str, Episode] = field(default_factory=dict)
    zombies: dict[NamedPlace, Episode] = field(default_factory=dict)


class HealthFold(FoldObserver):
    """Adds rows to `findings`, and one row for each group to `group_states`. `end_offsets`: the
    last known ones. `now_ms`: the instant as of which the end of the log is judged."""

    def __init__(
        self,
        facts: FoldFacts,
        topics: TopicNames,
        thresholds: Thresholds,
        end_offsets: Mapping[NamedPlace, int],
        now_ms: int,
    ) -> None:
        self._facts = facts
        self._topics = topics
        self._limits = thresholds
        self._ends = end_offsets
        self._now_ms = now_ms
        self._offsets = PresentOffsets()
        self._watches: dict[str, _Watch] = {}

    def committed(
        self, group: FoldedGroup | None, entry: FoldEntry, holder: MemberInterval | None
    ) -> None:
        self._offsets.apply(entry)
        if group is None or entry.value is None or holder is not None:
            return
        place = place_of(group.protocol, self._topics, entry, entry.value["topic_id"])
        found = None if place is None else self._zombie_kind(group, place, entry.at_ms)
        if found is None:
            return
        watch = self._watch(group)
        episode = watch.zombies.setdefault((entry.topic, entry.partition), Episode())
        # All such commits up to the end of the log are one episode, however far apart they are.
        episode.recent = episode.recent[:1]
        episode.note(entry.at_ms, entry.at_ms + 1, found[1], found[0])

    def _zombie_kind(
        self, group: FoldedGroup, place: OwnedPartition, at_ms: int
    ) -> tuple[str, str] | None:
        """What is wrong with a commit for a partition that no member holds, and the id of the
        member that held it before. None if nothing is wrong."""
        grace_ms = self._limits.zombie_grace_ms
        if not group.members:
            since_ms = group.empty_since_ms
            if not group.protocol_type or since_ms is None or at_ms - since_ms > grace_ms:
                return None  # the commit is from a tool, or from a consumer without membership
            return "after-leaving", ""
        if not group.target or any(one.epoch is None for one in group.members.values()):
            return None  # the log has just begun, or the assignment is in a client's own format
        since = group.released.get(place)
        if since is None:
            return "not-owned", ""
        return ("not-owned", since[1].member_id) if at_ms - since[0] >= grace_ms else None

    def transaction_ended(self, entry: FoldEntry) -> None:
        self._offsets.end(entry)

    def membership_ended(
        self, group: FoldedGroup, member: MemberInterval, at_ms: int, ending: MembershipEnd
    ) -> None:
        watch = self._watch(group)
        watch.storms.membership_ended(member, at_ms, ending)
        if ending.by != REPLACED or member.instance_id is None:
            return
        conflicts = watch.conflicts
        episode = conflicts.setdefault(member.instance_id, Episode())
        window_ms = self._limits.conflict_window_ms
        if episode.is_over(at_ms, window_ms):
            self._conflict(group.group_id, member.instance_id, episode)
            episode = conflicts[member.instance_id] = Episode()
        episode.note(at_ms, window_ms, member.member_id)

    def rebalance_opened(self, group: FoldedGroup, rebalance: Rebalance) -> None:
        watch, at_ms = self._watch(group), rebalance.written_ms
        watch.storms.rebalance_opened(group, rebalance)
        for client in rebalance.flapping:
            episode = watch.flapping.setdefault(client, Episode())
            if episode.is_over(at_ms, self._limits.flapping_window_ms):
                self._flapping(group.group_id, client, episode)
                episode = watch.flapping[client] = Episode()
            episode.note(at_ms, self._limits.flapping_window_ms, rebalance.epoch)

    def rebalance_over(self, group: FoldedGroup, rebalance: Rebalance) -> None:
        self._unowned(group, rebalance)
        if rebalance.status == "unfinished":
            self._unfinished(group, rebalance)

    def group_deleted(self, group_id: str) -> None:
        watch = self._watches.pop(group_id, None)
        if watch is not None:
            self._report(group_id, watch)

    def finished(self, groups: dict[str, FoldedGroup]) -> None:
        for group_id in sorted(self._watches):
            self._report(group_id, self._watches[group_id])
        for group_id in sorted(groups.keys() | self._offsets.by_group.keys()):
            group = groups.get(group_id)
            checkup = Checkup(
                group_id, group, self._offsets, self._limits, self._ends, self._now_ms
            )
            for row in checkup.rows():
                self._found(row)
            self._facts.add("group_states", _state(group_id, group, self._offsets))

    def _watch(self, group: FoldedGroup) -> _Watch:
        watch = self._watches.get(group.group_id)
        if watch is None:
            storms = Storms(group.group_id, self._limits, self._found)
            watch = self._watches[group.group_id] = _Watch(storms)
        return watch

    def _found(self, row: FactRow) -> None:
        self._facts.add("findings", row)

    def _find(
        self, kind: str, group_id: str, summary: str, seen: Occurrences, **given: Any
    ) -> None:
        self._found(finding(self._limits, kind, group_id, summary, seen, **given))

    # Findings

    def _report(self, group_id: str, watch: _Watch) -> None:
        watch.storms.end()
        for client in sorted(watch.flapping):
            self._flapping(group_id, client, watch.flapping[client])
        for instance_id in sorted(watch.conflicts):
            self._conflict(group_id, instance_id, watch.conflicts[instance_id])
        for place in sorted(watch.zombies):
            self._zombie(group_id, place, watch.zombies[place])

    def _flapping(self, group_id: str, client: str, episode: Episode) -> None:
        limits = self._limits
        self._find(
            FLAPPING,
            group_id,
            f"{client} joins and is gone again within {duration(limits.flapping_life_ms)}, over"
            f" and over: {episode.count} rebalances",
            episode,
            times=times(episode.count, limits.flapping_count),
            table="rebalances",
            where={"epoch": episode.names},
            facts={"client": client},
        )

    def _conflict(self, group_id: str, instance_id: str, episode: Episode) -> None:
        limit, window_ms = self._limits.conflict_replacements, self._limits.conflict_window_ms
        if not limit or episode.peak < limit:
            return
        self._find(
            CONFLICT,
            group_id,
            f"instance {instance_id} was taken over {episode.count} times, up to {episode.peak}"
            f" times within {duration(window_ms)}: two processes share the id, or one crashes in"
            " a loop",
            episode,
            times=times(episode.peak, limit),
            table="members",
            where={"instance_id": instance_id, "member_id": episode.names},
            facts={"instance_id": instance_id},
        )

    def _zombie(self, group_id: str, place: NamedPlace, episode: Episode) -> None:
        if episode.count < max(self._limits.zombie_commits, 1):
            return
        topic, partition = place
        suspects = sorted({str(name) for name in episode.names if name})
        whose = f"; it was {suspects[-1]}'s before" if suspects else ""
        words = "nobody owned it" if "not-owned" in episode.kinds else "all members had left"
        self._find(
            ZOMBIE,
            group_id,
            f"{episode.count} commits for {topic}-{partition} when {words}{whose}",
            episode,
            times=times(episode.count, self._limits.zombie_commits),
            table="commits",
            where={"topic": topic, "partition": partition},
            facts={"kinds": episode.kinds, "owners_before": suspects},
            topic=topic,
            partition=partition,
            member_id=suspects[-1] if suspects else None,
        )

    def _unowned(self, group: FoldedGroup, rebalance: Rebalance) -> None:
        limit_ms = self._limits.unowned_after_ms
        long = [
            (one.unowned_ms, one)
            for one in rebalance.moves
            if one.kind == "moved" and one.unowned_ms is not None and one.unowned_ms >= limit_ms
        ]
        if not limit_ms or not long:
            return
        most_ms = max(unowned_ms for unowned_ms, _ in long)
        moves = [move for _, move in long]
        self._find(
            UNOWNED,
            group.group_id,
            f"{len(long)} partitions were nobody's for up to {duration(most_ms)} in the rebalance"
            f" to epoch {rebalance.epoch}",
            Occurrences(
                min(move.released_ms or 0 for move in moves),
                max(move.taken_ms or 0 for move in moves),
                len(long),
            ),
            times=times(most_ms, limit_ms),
            table="rebalance_moves",
            where={"epoch": rebalance.epoch},
            facts={"longest_ms": most_ms, "partitions": [list(m.place) for m in moves[:MANY]]},
        )

    def _unfinished(self, group: FoldedGroup, rebalance: Rebalance) -> None:
        limits, since_ms = self._limits, rebalance.written_ms
        if self._now_ms - since_ms < limits.unfinished_after_ms:
            return
        waiting = list(rebalance.waiting_for)
        names = ", ".join(waiting[:3]) + (" and others" if len(waiting) > 3 else "")
        whom = f"; it waits for {names}" if waiting else ""
        self._find(
            UNFINISHED,
            group.group_id,
            f"the rebalance to epoch {rebalance.epoch} ({rebalance.triggers[0]}) is not over after"
            f" {duration(self._now_ms - since_ms)}{whom}",
            Occurrences(since_ms, self._now_ms, 1),
            times=times(self._now_ms - since_ms, limits.unfinished_after_ms),
            table="rebalances",
            where={"epoch": rebalance.epoch},
            facts={"waiting_for": waiting[:MANY], "count": len(waiting)},
            member_id=waiting[0] if waiting else None,
        )


def _state(group_id: str, group: FoldedGroup | None, offsets: PresentOffsets) -> dict[str, object]:
    """A row of `group_states`."""
    last_ms = max(group.last_ms if group else 0, offsets.last_ms.get(group_id, 0))
    state = "Offsets"
    if group is not None and (group.members or group.protocol_type):
        state = "Empty"
        if group.members:
            behind = any(one.epoch != group.epoch for one in group.members.values())
            waiting = any(one.state != STABLE for one in group.members.values())
            state = "Rebalancing" if behind or waiting else "Stable"
    return {
        "group": group_id,
        "protocol": group.protocol if group else None,
        "state": state,
        "members": len(group.members) if group else 0,
        "last_activity": last_ms,
    }
