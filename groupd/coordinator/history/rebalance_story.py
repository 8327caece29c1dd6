"""One rebalance while its events are put together (`groupd.coordinator.history.rebalances`), and
the sentences that tell it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from groupd.coordinator.core.types import EventKind
from groupd.coordinator.plain_text import span_text

Shown = Mapping[str, Any]
"""An event as a timeline shows it."""

NO_CLIENTS: Mapping[str, str] = {}
UNKNOWN_CAUSE = "what started it happened before the first event that is remembered"
NAMED_MAX = 5
"""How many members or partitions a sentence names."""

_WAITS_FOR_OTHERS = "others still hold"
PEOPLE = {
    EventKind.MEMBER_JOINED.value: "joined",
    EventKind.MEMBER_REPLACED.value: "joined",
    EventKind.MEMBER_LEFT.value: "left",
    EventKind.MEMBER_FENCED.value: "was fenced",
}
"""Events of members that come and go, and so start a rebalance."""


class MemberNames:
    """How members are called: by id, with their client id where it is known."""

    def __init__(self, events: Iterable[Shown], clients: Mapping[str, str]) -> None:
        self._clients = dict(clients)
        for event in events:
            client_id = event["details"].get("client_id")
            if client_id:
                self._clients[event["member_id"]] = client_id

    def client(self, member_id: str) -> str:
        """ "" for none."""
        return self._clients.get(member_id, "")

    def member(self, member_id: str) -> str:
        client_id = self.client(member_id)
        return f"member {member_id} (client {client_id})" if client_id else f"member {member_id}"


def causes_of(
    event: Shown, lead: Sequence[Shown], names: MemberNames, *, classic: bool
) -> list[str]:
    """Why a rebalance began with `event`. `lead`: the events before it, of the same moment."""
    people = [_person(one, names) for one in lead if one["event"] in PEOPLE]
    causes = [event["cause"]] if classic else event["cause"].split("; ")
    return people + [cause for cause in causes if not (people and _is_about_people(cause))]


def causes_text(causes: Sequence[str]) -> str:
    """Causes in one line of limited length."""
    return "; ".join(_some(causes))


class RebalanceStory:
    """`is_over`: by what the events tell. `has_target`: a consumer group's target assignment is
    computed."""

    def __init__(
        self, names: MemberNames, event: Shown, lead: Sequence[Shown], *, classic: bool
    ) -> None:
        self.classic = classic
        self.epoch: int = event["epoch"]
        self.has_target = False
        self.is_over = False
        self._names = names
        self._started_ms: int = event["timestamp_ms"]
        self._ended_ms: int | None = None
        self._last_ms = self._started_ms
        self._causes: list[str] = []
        self._steps: list[dict[str, Any]] = []
        self._ending = ""
        self._waiting: set[str] = set()
        self._unreleased: set[str] = set()
        self._wanted_ms: int | None = None
        self._holds: dict[str, int] = {}
        self._gave_up: dict[str, int] = {}
        self._moved: dict[str, set[int]] = {}
        if event["event"] in (
            EventKind.REBALANCE_STARTED.value,
            EventKind.GROUP_EPOCH_BUMPED.value,
        ):
            self.start_again(event, lead)

    def start_again(self, event: Shown, lead: Sequence[Shown]) -> None:
        """Another reason for it, or the first."""
        self.epoch = event["epoch"]
        for one in lead:
            self.step(one)
        causes = causes_of(event, lead, self._names, classic=self.classic)
        self._causes += [cause for cause in causes if cause not in self._causes]
        self.step(event)

    def forget_cause(self) -> None:
        """Nobody remembers how it started."""
        self._causes = [UNKNOWN_CAUSE]

    def step(self, event: Shown) -> None:
        """An event during the rebalance that does not bring it to its end."""
        member_id = event["member_id"]
        if event["event"] in (EventKind.MEMBER_LEFT.value, EventKind.MEMBER_FENCED.value):
            self._confirmed(member_id, event["timestamp_ms"])
            self._waiting.discard(member_id)
            self._unreleased.discard(member_id)
        self._steps.append(
            {
                "timestamp_ms": event["timestamp_ms"],
                "kind": event["event"],
                "member_id": member_id,
                "client_id": self._names.client(member_id),
                "text": _text(event, classic=self.classic),
            }
        )

    def target(self, event: Shown, epochs: Mapping[str, int]) -> None:
        self.has_target = True
        self._wanted_ms = event["timestamp_ms"]
        self._waiting = {member for member, epoch in epochs.items() if epoch < self.epoch}
        self._go_on(event)

    def progress(self, event: Shown) -> None:
        """A member of a consumer group has come nearer to its target."""
        kind, member_id, at_ms = event["event"], event["member_id"], event["timestamp_ms"]
        self.has_target = True  # even if nobody remembers that it was installed
        if kind == EventKind.PARTITIONS_REVOKING.value:
            # Others have waited for it since the target, also before it was told.
            since_ms = at_ms if self._wanted_ms is None else self._wanted_ms
            self._holds.setdefault(member_id, since_ms)
        elif kind == EventKind.MEMBER_EPOCH_ADVANCED.value:
            self._confirmed(member_id, at_ms)
            if event["epoch"] >= self.epoch:
                self._waiting.discard(member_id)
            if event["cause"].startswith(_WAITS_FOR_OTHERS):
                self._unreleased.add(member_id)
        else:
            self._unreleased.discard(member_id)
            for topic, numbers in event["details"]["partitions"].items():
                self._moved.setdefault(topic, set()).update(numbers)
        self._go_on(event)

    def generation(self, event: Shown) -> None:
        """The join phase of a classic group is over."""
        self.epoch = event["epoch"]
        self._go_on(event)
        if not event["details"].get("members"):
            self.empty(event)

    def complete(self, event: Shown) -> None:
        """A classic group is Stable again."""
        self.epoch = event["epoch"]
        self._go_on(event)
        members = _count(event["details"].get("members", 0), "member")
        self._end(event["timestamp_ms"], f"the group has {members} in generation {self.epoch}")

    def empty(self, event: Shown) -> None:
        self._end(event["timestamp_ms"], "the group has no members any more")

    def overtaken(self, at_ms: int) -> None:
        """The next rebalance starts."""
        if not self.is_over:
            self._ended_ms = at_ms
            self._ending = "the next rebalance started before this one was over"

    def settle(self, over: bool | None) -> None:
        """No more events. `over`: what the group's state tells; None = nothing."""
        if over and not self.is_over:
            self._end(self._last_ms, "")
        elif over is False and not self.classic:
            self._ended_ms = None

    @property
    def _moved_count(self) -> int:
        return sum(map(len, self._moved.values()))

    def shown(self) -> dict[str, Any]:
        return {
            "started_ms": self._started_ms,
            "ended_ms": self._ended_ms,
            "cause": causes_text(self._causes),
            "epoch": self.epoch,
            "moved_partitions": None if self.classic else self._moved_count,
            "sentence": self._sentence(),
            "steps": self._steps,
        }

    def _go_on(self, event: Shown) -> None:
        self.step(event)
        self._last_ms = event["timestamp_ms"]
        if self.classic:
            return
        self.is_over = False
        if self.has_target and not (self._waiting or self._unreleased or self._holds):
            self._end(self._last_ms, "")

    def _end(self, at_ms: int, ending: str) -> None:
        self.is_over = True
        self._ended_ms = at_ms
        self._ending = ending

    def _confirmed(self, member_id: str, at_ms: int) -> None:
        """The member has nothing left to revoke."""
        since_ms = self._holds.pop(member_id, None)
        if since_ms is not None:
            took_ms = max(0, at_ms - since_ms)
            self._gave_up[member_id] = max(took_ms, self._gave_up.get(member_id, 0))

    def _sentence(self) -> str:
        parts = [*_some(self._causes), self._result()]
        if self._gave_up:
            slowest = max(self._gave_up, key=lambda one: (self._gave_up[one], one))
            took = span_text(self._gave_up[slowest])
            parts.append(f"{self._names.member(slowest)} took longest to revoke partitions: {took}")
        return " ".join(f"{part[0].upper()}{part[1:]}." for part in parts if part)

    def _result(self) -> str:
        moved = f"{_count(self._moved_count, 'partition')} moved"
        told = "" if self.classic else moved
        if self._ending:
            told = f"{told}, then {self._ending}" if self._moved else self._ending
        if self._ended_ms is None:
            if not self.classic and not self.has_target:
                return "its target assignment is not computed yet"
            return f"{told} so far; it is not over yet" if told else "it is not over yet"
        took_ms = max(0, self._ended_ms - self._started_ms)
        if told and self._ending and not took_ms:
            return told
        took = f"it took {span_text(took_ms)}"
        return f"{told}; {took}" if told else took


def _person(event: Shown, names: MemberNames) -> str:
    words = f"{names.member(event['member_id'])} {PEOPLE[event['event']]}"
    return words if event["cause"] in ("", "new member") else f"{words}: {event['cause']}"


def _is_about_people(cause: str) -> bool:
    """Whether the cause says no more than the events of those who came and went."""
    return (
        cause.endswith((" joined", " left", " expired", " did not sync"))
        or " members removed: " in cause
    )


def _text(event: Shown, *, classic: bool) -> str:
    """The event in words; the member is named beside it."""
    kind, cause, details = event["event"], event["cause"], event["details"]
    match kind:
        case EventKind.GROUP_EPOCH_BUMPED.value:
            word = "generation" if classic else "epoch"
            return f"{word} {event['epoch']}: {cause}"
        case EventKind.TARGET_INSTALLED.value:
            moved = _count(details["moved_members"], "member")
            return f"the target assignment is {cause}; it changes what {moved} may have"
        case EventKind.PARTITIONS_REVOKING.value:
            limit = span_text(details["rebalance_timeout_ms"])
            return f"is to revoke {_partitions(details['partitions'])} within {limit}"
        case EventKind.MEMBER_EPOCH_ADVANCED.value:
            return f"is at epoch {event['epoch']}: {cause}"
        case EventKind.PARTITIONS_ASSIGNED.value:
            return f"is assigned {_partitions(details['partitions'])}"
        case EventKind.REBALANCE_STARTED.value:
            return f"a rebalance starts: {cause}"
        case EventKind.REBALANCE_COMPLETED.value:
            return f"generation {event['epoch']} is complete: {cause}"
        case EventKind.REGEX_RESOLVED.value:
            return f"the regular expression {details['regex']} is resolved: {cause}"
        case EventKind.ASSIGNOR_FAILED.value:
            return f"the assignor {details['assignor']} has failed: {cause}"
        case _:
            done = PEOPLE.get(kind, kind.replace("-", " "))
            return f"{done}: {cause}" if cause else done


def _partitions(partitions: Mapping[str, Sequence[int]]) -> str:
    """The first of them; an event may have thousands."""
    names = (f"{topic}-{number}" for topic, numbers in partitions.items() for number in numbers)
    more = sum(map(len, partitions.values())) - NAMED_MAX
    return ", ".join([*islice(names, NAMED_MAX), *_and_more(more)]) or "nothing"


def _some(texts: Sequence[str]) -> list[str]:
    return [*texts[:NAMED_MAX], *_and_more(len(texts) - NAMED_MAX)]


def _and_more(count: int) -> list[str]:
    return [f"and {count} more"] if count > 0 else []


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
