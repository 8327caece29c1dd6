"""Memberships and ownership of partitions: the steps that both protocols share.

They change the live state and write a row when an interval ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from groupd.pipeline.fold.entry import FactRow, FoldEntry, FoldFacts, FoldObserver
from groupd.pipeline.fold.state import (
    AWAY,
    REPLACED,
    TRIGGERS,
    Cause,
    FoldedGroup,
    MemberInterval,
    MembershipEnd,
    OwnedInterval,
    OwnedPartition,
    Owner,
    Settings,
    TopicNames,
    membership_end,
)


class Tracker:
    __slots__ = ("facts", "observers", "settings", "topics")

    def __init__(
        self,
        facts: FoldFacts,
        topics: TopicNames,
        settings: Settings,
        observers: Sequence[FoldObserver],
    ) -> None:
        self.facts = facts
        self.topics = topics
        self.settings = settings
        self.observers = observers

    # Members

    def begin(
        self, group: FoldedGroup, entry: FoldEntry, member_id: str, began_by: str | None
    ) -> MemberInterval:
        member = MemberInterval(
            member_id,
            group.protocol,
            entry.at_ms,
            entry.log_offset,
            began_by,
            state_since_ms=entry.at_ms,
            state_offset=entry.log_offset,
            heard_ms=entry.at_ms,
        )
        group.members[member_id] = member
        return member

    def enter(
        self,
        group: FoldedGroup,
        member: MemberInterval,
        entry: FoldEntry,
        epoch: int,
        state: str,
    ) -> None:
        """Handles a record of the member with this epoch and state, which may be unchanged."""
        if (member.epoch, member.state) == (epoch, state):
            return
        if member.epoch is not None:
            self._epoch_row(group, member, entry.at_ms)
        if member.epoch != epoch:
            member.epochs += epoch > 0
            if member.first_epoch is None and epoch > 0:
                member.first_epoch = epoch
        member.epoch, member.state = epoch, state
        member.state_since_ms, member.state_offset = entry.at_ms, entry.log_offset

    def depart(self, group: FoldedGroup, member_id: str, at_ms: int) -> None:
        """Notes that the member's records are gone; `flush` or a successor ends its membership."""
        member = group.members.pop(member_id, None)
        if member is not None:
            group.settled.discard(member_id)
            group.away.discard(member_id)
            group.departing[member_id] = member
            group.departing_ms = at_ms

    def flush(self, group: FoldedGroup) -> None:
        """Ends the members that departed in the operation that is now over."""
        for member in group.departing.values():
            self.end(group, member, group.departing_ms, None)
        group.departing.clear()

    def end(
        self,
        group: FoldedGroup,
        member: MemberInterval,
        at_ms: int,
        ending: MembershipEnd | None,
    ) -> None:
        """Ends a membership. If `ending` is None, the reason is found out here."""
        ending = ending or membership_end(member, at_ms, self.settings)
        by = "removed" if ending.successor is None else ending.by
        for place in sorted(member.held()):
            self.release(group, place, member, at_ms, by)
        if member.epoch is not None:
            self._epoch_row(group, member, at_ms)
        self.facts.add("members", self._member_row(group, member, at_ms, ending))
        if ending.successor is None:
            group.left_since.append(member.member_id)
            self._note_flapping(group, member, at_ms)
        group.causes.append(Cause(at_ms, TRIGGERS[ending.by], member.member_id))
        for observer in self.observers:
            observer.membership_ended(group, member, at_ms, ending)

    def succeed(
        self,
        group: FoldedGroup,
        old: MemberInterval,
        entry: FoldEntry,
        member_id: str,
        by: str = REPLACED,
    ) -> MemberInterval:
        """Ends the membership `old` and begins its successor, which holds no partitions yet."""
        words = f"instance {old.instance_id} came back as another member"
        if by != REPLACED:
            words = f"the group speaks the {group.protocol} protocol now"
        self.end(group, old, entry.at_ms, MembershipEnd(by, "certain", words, member_id))
        member = self.begin(group, entry, member_id, by)
        member.replaces = old.member_id if by == REPLACED else None
        return member

    def take_over(
        self, group: FoldedGroup, entry: FoldEntry, instance_id: str | None, member_id: str
    ) -> tuple[MemberInterval, MemberInterval] | None:
        """Lets a new member of a static instance take the place of the member of that instance that
        departs. Returns both; None if there is none."""
        for other_id, old in group.departing.items():
            if instance_id is not None and old.instance_id == instance_id:
                del group.departing[other_id]
                return old, self.succeed(group, old, entry, member_id)
        return None

    def _note_flapping(self, group: FoldedGroup, member: MemberInterval, at_ms: int) -> None:
        settings = self.settings
        if member.began_by != "joined" or at_ms - member.joined_ms > settings.flap_life_ms:
            return
        horizon = at_ms - settings.flap_window_ms
        for client in [c for c, ends in group.short_lives.items() if ends[-1] < horizon]:
            del group.short_lives[client]
        ends = group.short_lives.setdefault(member.client, [])
        ends[:] = [*(end for end in ends if end >= horizon), at_ms]

    # Partitions

    def hold(
        self,
        group: FoldedGroup,
        place: OwnedPartition,
        member: MemberInterval,
        entry: FoldEntry,
    ) -> None:
        before = group.holders.get(place)
        if before is not None:
            # Only a client-side assignor gives a partition to two members. The later member counts.
            loser = group.members.get(before.owner.member_id)
            self._ownership_row(group, place, before, loser, entry.at_ms, "revoked")
        group.holders[place] = OwnedInterval(
            member.owner, entry.at_ms, entry.log_offset, member.epoch
        )
        found = group.awaiting.get(place)
        if found is not None and _key(found[1].after) == member.key:
            move, since = found[1], group.released.get(place)
            if since is not None:
                move.released_ms = since[0]
            move.taken_ms = entry.at_ms
        group.released.pop(place, None)

    def release(
        self,
        group: FoldedGroup,
        place: OwnedPartition,
        member: MemberInterval,
        at_ms: int,
        by: str,
    ) -> None:
        holding = group.holders.get(place)
        if holding is not None and holding.owner.member_id == member.member_id:
            self._ownership_row(group, place, holding, member, at_ms, by)
            del group.holders[place]
            if member.protocol == group.protocol:
                group.released[place] = (at_ms, holding.owner)

    def set_held(
        self,
        group: FoldedGroup,
        member: MemberInterval,
        entry: FoldEntry,
        assigned: set[OwnedPartition],
        pending: set[OwnedPartition],
    ) -> None:
        """Sets what a member holds from now on."""
        before, after = member.held(), assigned | pending
        for place in sorted(before - after):
            self.release(group, place, member, entry.at_ms, "revoked")
        for place in sorted(after - before):
            self.hold(group, place, member, entry)
        for place in pending - member.pending:
            group.holders[place].revoking_since_ms = entry.at_ms
        for place in assigned & member.pending:
            group.holders[place].revoking_since_ms = None
        member.assigned, member.pending = assigned, pending
        member.partitions_max = max(member.partitions_max, len(assigned))

    # Rows

    def close(self, group: FoldedGroup) -> None:
        """Handles the end of the log: writes rows with open ends for what is still going on."""
        self.flush(group)
        for member_id in sorted(group.members):
            member = group.members[member_id]
            if member.epoch is not None:
                self._epoch_row(group, member, None)
            self.facts.add("members", self._member_row(group, member, None, None))
        for place in sorted(group.holders):
            holding = group.holders[place]
            holder = group.members.get(holding.owner.member_id)
            self._ownership_row(group, place, holding, holder, None, None)

    def _epoch_row(self, group: FoldedGroup, member: MemberInterval, until_ms: int | None) -> None:
        if member.state == AWAY and until_ms is not None:
            member.away_ms += until_ms - member.state_since_ms
        if until_ms == member.state_since_ms:
            return  # it began and ended at the same instant
        self.facts.add(
            "member_epochs",
            {
                "group": group.group_id,
                "member_id": member.member_id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "protocol": member.protocol,
                "epoch": member.epoch,
                "state": member.state,
                "since": member.state_since_ms,
                "until": until_ms,
                "partitions": len(member.assigned),
                "revoking": len(member.pending),
                "log_partition": group.log_partition,
                "log_offset": member.state_offset,
            },
        )

    def _ownership_row(
        self,
        group: FoldedGroup,
        place: OwnedPartition,
        holding: OwnedInterval,
        member: MemberInterval | None,
        until_ms: int | None,
        by: str | None,
    ) -> None:
        row: FactRow = {
            "group": group.group_id,
            **self.topics.columns(place, group.protocol if member is None else member.protocol),
            "member_id": holding.owner.member_id,
            "instance_id": member.instance_id if member else None,
            "client_id": member.client_id if member else None,
            "protocol": member.protocol if member else group.protocol,
            "epoch": holding.epoch,
            "since": holding.since_ms,
            "revoking_since": holding.revoking_since_ms,
            "until": until_ms,
            "ended_by": by,
            "log_partition": group.log_partition,
            "log_offset": holding.log_offset,
        }
        self.facts.add("ownership", row)

    def _member_row(
        self,
        group: FoldedGroup,
        member: MemberInterval,
        at_ms: int | None,
        ending: MembershipEnd | None,
    ) -> FactRow:
        now_away = at_ms is None and member.state == AWAY
        return {
            "group": group.group_id,
            "member_id": member.member_id,
            "instance_id": member.instance_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "rack_id": member.rack_id,
            "protocol": member.protocol,
            "joined": member.joined_ms,
            "began_by": member.began_by or "seen",
            "replaces": member.replaces,
            "ended": at_ms,
            "ended_by": ending and ending.by,
            "ended_certainty": ending and ending.certainty,
            "ended_why": ending and ending.why,
            "replaced_by": (ending and ending.by == REPLACED and ending.successor) or None,
            "lifetime_ms": None if at_ms is None else at_ms - member.joined_ms,
            "last_sign": member.last_sign_ms,
            "first_epoch": member.first_epoch,
            "last_epoch": member.epoch,
            "epochs": member.epochs,
            "partitions": len(member.assigned),
            "partitions_max": member.partitions_max,
            "away_ms": member.away_ms + (group.last_ms - member.state_since_ms if now_away else 0),
            "subscribed_topics": sorted(member.topics),
            "subscribed_regex": member.regex or None,
            "server_assignor": member.assignor,
            "rebalance_timeout_ms": member.rebalance_timeout_ms,
            "session_timeout_ms": member.session_timeout_ms,
            "log_partition": group.log_partition,
            "log_offset": member.log_offset,
        }


def _key(owner: Owner | None) -> str | None:
    return None if owner is None else owner.key


def index_by_key(members: Mapping[str, MemberInterval]) -> dict[str, MemberInterval]:
    return {member.key: member for member in members.values()}
