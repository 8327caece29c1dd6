"""Lives of members and ownership of partitions: the steps that both protocols share.

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
    Ending,
    FoldedGroup,
    Life,
    OwnedInterval,
    OwnedPartition,
    Owner,
    Settings,
    TopicNames,
    ending_of,
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
    ) -> Life:
        life = Life(
            member_id,
            group.protocol,
            entry.at_ms,
            entry.offset,
            began_by,
            state_since_ms=entry.at_ms,
            state_offset=entry.offset,
            heard_ms=entry.at_ms,
        )
        group.members[member_id] = life
        return life

    def enter(
        self, group: FoldedGroup, life: Life, entry: FoldEntry, epoch: int, state: str
    ) -> None:
        """Handles a record of the member with this epoch and state, which may be unchanged."""
        if (life.epoch, life.state) == (epoch, state):
            return
        if life.epoch is not None:
            self._epoch_row(group, life, entry.at_ms)
        if life.epoch != epoch:
            life.epochs += epoch > 0
            if life.first_epoch is None and epoch > 0:
                life.first_epoch = epoch
        life.epoch, life.state = epoch, state
        life.state_since_ms, life.state_offset = entry.at_ms, entry.offset

    def depart(self, group: FoldedGroup, member_id: str, at_ms: int) -> None:
        """Notes that the member's records are gone; `flush` or a successor will end its life."""
        life = group.members.pop(member_id, None)
        if life is not None:
            group.settled.discard(member_id)
            group.away.discard(member_id)
            group.departing[member_id] = life
            group.departing_ms = at_ms

    def flush(self, group: FoldedGroup) -> None:
        """Ends the members that departed in the operation that is now over."""
        for life in group.departing.values():
            self.end(group, life, group.departing_ms, None)
        group.departing.clear()

    def end(self, group: FoldedGroup, life: Life, at_ms: int, ending: Ending | None) -> None:
        """Ends a life. If `ending` is None, the reason is found out here."""
        ending = ending or ending_of(life, at_ms, self.settings)
        by = "removed" if ending.successor is None else ending.by
        for place in sorted(life.held()):
            self.release(group, place, life, at_ms, by)
        if life.epoch is not None:
            self._epoch_row(group, life, at_ms)
        self.facts.add("members", self._member_row(group, life, at_ms, ending))
        if ending.successor is None:
            group.left_since.append(life.member_id)
            self._note_flapping(group, life, at_ms)
        group.causes.append(Cause(at_ms, TRIGGERS[ending.by], life.member_id))
        for observer in self.observers:
            observer.life_ended(group, life, at_ms, ending)

    def succeed(
        self, group: FoldedGroup, old: Life, entry: FoldEntry, member_id: str, by: str = REPLACED
    ) -> Life:
        """Ends the life `old` and begins its successor, which holds no partitions yet."""
        words = f"instance {old.instance_id} came back as another member"
        if by != REPLACED:
            words = f"the group speaks the {group.protocol} protocol now"
        self.end(group, old, entry.at_ms, Ending(by, "certain", words, member_id))
        life = self.begin(group, entry, member_id, by)
        life.replaces = old.member_id if by == REPLACED else None
        return life

    def _note_flapping(self, group: FoldedGroup, life: Life, at_ms: int) -> None:
        settings = self.settings
        if life.began_by != "joined" or at_ms - life.joined_ms > settings.flap_life_ms:
            return
        horizon = at_ms - settings.flap_window_ms
        for client in [c for c, ends in group.short_lives.items() if ends[-1] < horizon]:
            del group.short_lives[client]
        ends = group.short_lives.setdefault(life.client, [])
        ends[:] = [*(end for end in ends if end >= horizon), at_ms]

    # Partitions

    def hold(self, group: FoldedGroup, place: OwnedPartition, life: Life, entry: FoldEntry) -> None:
        before = group.holders.get(place)
        if before is not None:
            # Only a client-side assignor gives a partition to two members. The later member counts.
            loser = group.members.get(before.owner.member_id)
            self._ownership_row(group, place, before, loser, entry.at_ms, "revoked")
        group.holders[place] = OwnedInterval(life.owner, entry.at_ms, entry.offset, life.epoch)
        found = group.awaiting.get(place)
        if found is not None and _key(found[1].after) == life.key:
            move, since = found[1], group.released.get(place)
            if since is not None:
                move.released_ms = since[0]
            move.taken_ms = entry.at_ms
        group.released.pop(place, None)

    def release(
        self, group: FoldedGroup, place: OwnedPartition, life: Life, at_ms: int, by: str
    ) -> None:
        holding = group.holders.get(place)
        if holding is not None and holding.owner.member_id == life.member_id:
            self._ownership_row(group, place, holding, life, at_ms, by)
            del group.holders[place]
            if life.protocol == group.protocol:
                group.released[place] = (at_ms, holding.owner)

    def set_held(
        self,
        group: FoldedGroup,
        life: Life,
        entry: FoldEntry,
        assigned: set[OwnedPartition],
        pending: set[OwnedPartition],
    ) -> None:
        """Sets what a member holds from now on."""
        before, after = life.held(), assigned | pending
        for place in sorted(before - after):
            self.release(group, place, life, entry.at_ms, "revoked")
        for place in sorted(after - before):
            self.hold(group, place, life, entry)
        for place in pending - life.pending:
            group.holders[place].revoking_since_ms = entry.at_ms
        for place in assigned & life.pending:
            group.holders[place].revoking_since_ms = None
        life.assigned, life.pending = assigned, pending
        life.partitions_max = max(life.partitions_max, len(assigned))

    # Rows

    def close(self, group: FoldedGroup) -> None:
        """Handles the end of the log: writes rows with open ends for what is still going on."""
        self.flush(group)
        for member_id in sorted(group.members):
            life = group.members[member_id]
            if life.epoch is not None:
                self._epoch_row(group, life, None)
            self.facts.add("members", self._member_row(group, life, None, None))
        for place in sorted(group.holders):
            holding = group.holders[place]
            holder = group.members.get(holding.owner.member_id)
            self._ownership_row(group, place, holding, holder, None, None)

    def _epoch_row(self, group: FoldedGroup, life: Life, until_ms: int | None) -> None:
        if life.state == AWAY and until_ms is not None:
            life.away_ms += until_ms - life.state_since_ms
        if until_ms == life.state_since_ms:
            return  # it began and ended at the same instant
        self.facts.add(
            "member_epochs",
            {
                "group": group.group_id,
                "member_id": life.member_id,
                "instance_id": life.instance_id,
                "client_id": life.client_id,
                "protocol": life.protocol,
                "epoch": life.epoch,
                "state": life.state,
                "since": life.state_since_ms,
                "until": until_ms,
                "partitions": len(life.assigned),
                "revoking": len(life.pending),
                "log_partition": group.log_partition,
                "log_offset": life.state_offset,
            },
        )

    def _ownership_row(
        self,
        group: FoldedGroup,
        place: OwnedPartition,
        holding: OwnedInterval,
        life: Life | None,
        until_ms: int | None,
        by: str | None,
    ) -> None:
        row: FactRow = {
            "group": group.group_id,
            **self.topics.columns(place, group.protocol if life is None else life.protocol),
            "member_id": holding.owner.member_id,
            "instance_id": life.instance_id if life else None,
            "client_id": life.client_id if life else None,
            "protocol": life.protocol if life else group.protocol,
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
        self, group: FoldedGroup, life: Life, at_ms: int | None, ending: Ending | None
    ) -> FactRow:
        now_away = at_ms is None and life.state == AWAY
        return {
            "group": group.group_id,
            "member_id": life.member_id,
            "instance_id": life.instance_id,
            "client_id": life.client_id,
            "client_host": life.client_host,
            "rack_id": life.rack_id,
            "protocol": life.protocol,
            "joined": life.joined_ms,
            "began_by": life.began_by or "seen",
            "replaces": life.replaces,
            "ended": at_ms,
            "ended_by": ending and ending.by,
            "ended_certainty": ending and ending.certainty,
            "ended_why": ending and ending.why,
            "replaced_by": (ending and ending.by == REPLACED and ending.successor) or None,
            "lifetime_ms": None if at_ms is None else at_ms - life.joined_ms,
            "last_sign": life.last_sign_ms,
            "first_epoch": life.first_epoch,
            "last_epoch": life.epoch,
            "epochs": life.epochs,
            "partitions": len(life.assigned),
            "partitions_max": life.partitions_max,
            "away_ms": life.away_ms + (group.last_ms - life.state_since_ms if now_away else 0),
            "subscribed_topics": sorted(life.topics),
            "subscribed_regex": life.regex or None,
            "server_assignor": life.assignor,
            "rebalance_timeout_ms": life.rebalance_timeout_ms,
            "session_timeout_ms": life.session_timeout_ms,
            "log_partition": group.log_partition,
            "log_offset": life.log_offset,
        }


def _key(owner: Owner | None) -> str | None:
    return None if owner is None else owner.key


def index_by_key(members: Mapping[str, Life]) -> dict[str, Life]:
    return {life.key: life for life in members.values()}
