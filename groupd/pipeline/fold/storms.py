"""Finds rebalance storms of one group, and the clients that cause them.

A rolling start or restart also makes many rebalances, but there each client joins once, or leaves
once and joins once. In a storm the same clients join and leave over and over. So a rebalance counts
only if a client caused it that did the same thing `storm.repeats` times in a row, each time within
`storm.window` of the time before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from msgspec import Struct, field

from groupd.pipeline.fold.entry import FactRow
from groupd.pipeline.fold.findings import MANY, STORM, Episode, Thresholds, duration, finding, times
from groupd.pipeline.fold.state import FoldedGroup, MemberInterval, MembershipEnd, Rebalance

_GONE = "gone"
_DEPARTURES = frozenset({"leave", "expiry", "removal", "rebalance-timeout"})
_FOLLOW_UP = "follow-up"
_NAMED = 3
"""At most this many clients are named in the summary."""

_GONE_MAX = 1000
"""At most this many clients that are gone are remembered; the oldest are forgotten first."""


class _StormClient(Struct, eq=False):
    """The client behind a member; after a restart it comes back as another member. `acts`: for each
    kind of act, how often in a row the client did it and when it last did. `gone_ms`: None while
    the client is a member."""

    member_id: str | None
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    gone_ms: int | None = None
    acts: dict[str, tuple[int, int]] = field(default_factory=dict)

    def is_now(self, member: MemberInterval) -> None:
        self.member_id, self.instance_id = member.member_id, member.instance_id
        self.client_id, self.client_host = member.client_id, member.client_host

    def act(self, kind: str, at_ms: int, window_ms: int) -> int:
        """Notes that the client does this now; returns how often in a row it has, this time
        included."""
        before, last_ms = self.acts.get(kind, (0, 0))
        count = before + 1 if before and at_ms - last_ms < window_ms else 1
        self.acts[kind] = (count, at_ms)
        return count

    def unlike(self, member: MemberInterval) -> int:
        """How much a member differs from this client. 0: the same instance, or the same client id
        on the same host. 1: the same client id. 2: another client, so a new process that takes over
        its place."""
        if self.instance_id or member.instance_id:
            return 0 if self.instance_id == member.instance_id else 2
        if self.client_id != member.client_id:
            return 2
        return 0 if self.client_host == member.client_host else 1

    def words(self) -> str:
        instance = f", instance {self.instance_id}" if self.instance_id else ""
        return f"{self.client_id or 'without a client id'} at {self.client_host}{instance}"


class Storms:
    """Watches the rebalances of one group. When a storm is over, `report` gets it as a row of
    `findings`."""

    def __init__(
        self, group_id: str, limits: Thresholds, report: Callable[[FactRow], None]
    ) -> None:
        self._group_id = group_id
        self._limits = limits
        self._report = report
        self._members: dict[str, _StormClient] = {}
        self._gone: list[_StormClient] = []
        self._ended: dict[str, _StormClient] = {}
        """The clients whose membership ended at `_ended_ms`, by member id, because causes name
        members."""
        self._ended_ms = 0
        self._without_member = _StormClient(None)
        self._episode = Episode()
        self._culprits: Counter[_StormClient] = Counter()
        self._repeating: dict[_StormClient, None] = {}
        """The clients for which the last rebalance counted."""

    def membership_ended(self, member: MemberInterval, at_ms: int, ending: MembershipEnd) -> None:
        client = self._members.pop(member.member_id, None) or _StormClient(member.member_id)
        client.is_now(member)
        if self._ended_ms != at_ms:
            self._ended, self._ended_ms = {}, at_ms
        self._ended[member.member_id] = client
        if ending.successor is not None:
            client.member_id = ending.successor
            self._members[ending.successor] = client
        else:
            client.gone_ms = at_ms
            self._gone = [*self._gone[1 - _GONE_MAX :], client]

    def rebalance_opened(self, group: FoldedGroup, rebalance: Rebalance) -> None:
        limits, at_ms = self._limits, rebalance.written_ms
        window_ms = limits.storm_window_ms
        if self._episode.is_over(at_ms, window_ms):
            self.end()
        self._gone = [one for one in self._gone if at_ms - (one.gone_ms or at_ms) < window_ms]
        repeating: dict[_StormClient, None] = {}
        # Endings come first: a client may go and come back in one rebalance.
        for trigger, member_id in sorted(rebalance.causes, key=lambda cause: cause[0] == "join"):
            client = self._client(group, trigger, member_id, at_ms)
            kind = _GONE if trigger in _DEPARTURES else trigger
            if client.act(kind, at_ms, window_ms) >= limits.storm_repeats:
                repeating[client] = None
        if rebalance.triggers == (_FOLLOW_UP,):
            # The second round of a cooperative protocol belongs to the rebalance before.
            repeating = self._repeating
        self._repeating = repeating
        if repeating:
            self._episode.note(at_ms, window_ms, rebalance.epoch, rebalance.triggers[0])
            self._culprits.update(one for one in repeating if one.member_id is not None)

    def end(self) -> None:
        """Reports the present storm, if there is one, as over."""
        episode, culprits = self._episode, self._culprits
        self._episode, self._culprits = Episode(), Counter()
        limit = self._limits.storm_rebalances
        if limit and episode.peak >= limit:
            self._report(self._finding(episode, culprits.most_common()))

    def _client(self, group: FoldedGroup, trigger: str, member_id: str, at_ms: int) -> _StormClient:
        if not member_id:
            return self._without_member
        if trigger != "join" and self._ended_ms == at_ms and member_id in self._ended:
            return self._ended[member_id]
        client, member = self._members.get(member_id), group.members.get(member_id)
        if client is None:
            if trigger == "join" and member is not None:
                client = self._returned(member)
            client = client or _StormClient(member_id)
        if member is not None:
            self._members[member_id] = client
            client.is_now(member)
        return client

    def _returned(self, member: MemberInterval) -> _StormClient | None:
        """The client that comes back as this member, out of those that are gone; None if there is
        none."""
        if not self._gone:
            return None
        gone = self._gone
        number = min(range(len(gone)), key=lambda number: gone[number].unlike(member))
        gone[number].gone_ms = None
        return gone.pop(number)

    def _finding(self, episode: Episode, culprits: list[tuple[_StormClient, int]]) -> FactRow:
        limits = self._limits
        kinds = ", ".join(f"{kind} {count}" for kind, count in episode.kinds.most_common())
        shares = [
            f"{client.words()} caused {count / episode.count:.0%}"
            for client, count in culprits[:_NAMED]
        ]
        who = f"; {', '.join(shares)}" if shares else ""
        return finding(
            limits,
            STORM,
            self._group_id,
            f"{episode.count} rebalances, up to {episode.peak} of them within"
            f" {duration(limits.storm_window_ms)} ({kinds}){who}",
            episode,
            times=times(episode.peak, limits.storm_rebalances),
            table="rebalances",
            where={"epoch": episode.names},
            facts={
                "triggers": episode.kinds,
                "most_in_window": episode.peak,
                "clients": [
                    {
                        "client_id": client.client_id,
                        "client_host": client.client_host,
                        "instance_id": client.instance_id,
                        "member_id": client.member_id,
                        "rebalances": count,
                        "share": round(count / episode.count, 3),
                    }
                    for client, count in culprits[:MANY]
                ],
                "clients_count": len(culprits),
            },
            member_id=culprits[0][0].member_id if culprits else None,
        )
