"""Rebalances in words: rows of the console's page of a group and of `groups why`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from groupd.coordinator.core.types import CLASSIC, Event, EventKind
from groupd.coordinator.history.rebalance import (
    GroupRebalance,
    PartKind,
    RebalanceEnd,
    RebalanceStart,
)
from groupd.coordinator.plain_text import span_text

NO_CLIENTS: Mapping[str, str] = {}
UNKNOWN_CAUSE = "what started it happened before the first event that is remembered"
NAMED_MAX = 5
"""How many causes or partitions a sentence names at most."""

_DONE = {
    EventKind.MEMBER_JOINED: "joined",
    EventKind.MEMBER_REPLACED: "joined",
    EventKind.MEMBER_LEFT: "left",
    EventKind.MEMBER_FENCED: "was fenced",
}
_ENDINGS = {
    RebalanceEnd.SUPERSEDED: "the next rebalance started before this one was over",
    RebalanceEnd.EMPTY: "the group has no members any more",
    RebalanceEnd.CONVERTED: "the group has another type",
    RebalanceEnd.DELETED: "the group was deleted",
}


def rebalance_rows(
    rebalances: Sequence[GroupRebalance], known: Mapping[str, str] = NO_CLIENTS
) -> list[dict[str, Any]]:
    """Returns rows about rebalances whose times are in milliseconds, as a page shows them, newest
    first: `started_ms`, `ended_ms` (None: under way; of a superseded one, the start of the next),
    `cause`, `epoch` (the generation of a classic group), `moved_partitions` (how many were given to
    a member; None for classic groups, where only the clients know), `sentence`, and `steps`:
    `timestamp_ms`, `kind`, `member_id`, `client_id`, `text`. `known`: member id -> client id, for
    members that joined before these steps."""
    clients = dict(known)
    for rebalance in rebalances:
        for _, event in rebalance.steps:
            if client_id := event.details.get("client_id"):
                clients[event.member_id] = client_id
    return [_row(rebalance, clients) for rebalance in reversed(rebalances)]


def _row(rebalance: GroupRebalance, clients: Mapping[str, str]) -> dict[str, Any]:
    return {
        "started_ms": rebalance.since,
        "ended_ms": rebalance.until,
        "cause": cause_text(rebalance),
        "epoch": rebalance.epoch,
        "moved_partitions": None if rebalance.classic else rebalance.assigned,
        "sentence": _sentence(rebalance, clients),
        "steps": [
            {
                "timestamp_ms": at,
                "kind": event.kind.value,
                "member_id": event.member_id,
                "client_id": clients.get(event.member_id, ""),
                "text": _text(event),
            }
            for at, event in rebalance.steps
        ],
    }


def cause_text(rebalance: GroupRebalance) -> str:
    """Says why the rebalance began, in one line of limited length."""
    return "; ".join(_causes(rebalance))


def _causes(rebalance: GroupRebalance) -> list[str]:
    found = {} if rebalance.known else {UNKNOWN_CAUSE: None}
    more = rebalance.starts_left_out
    for start in rebalance.starts:
        found |= dict.fromkeys(_causes_of(start))
        more += start.people_count - len(start.people)
    return _some(list(found), more)


def _causes_of(start: RebalanceStart) -> list[str]:
    event, people = start.event, start.people
    causes = [event.cause] if event.group_type == CLASSIC else event.cause.split("; ")
    return [
        *map(_person, people),
        *(cause for cause in causes if not (people and _is_about_people(cause))),
    ]


def _person(event: Event) -> str:
    client_id = event.details.get("client_id", "")
    words = f"{_member(event.member_id, client_id)} {_DONE[event.kind]}"
    return words if event.cause in ("", "new member") else f"{words}: {event.cause}"


def _is_about_people(cause: str) -> bool:
    """Whether the cause says no more than the events of the members that joined or left."""
    return (
        cause.endswith((" joined", " left", " expired", " did not sync"))
        or " members removed: " in cause
    )


def _sentence(rebalance: GroupRebalance, clients: Mapping[str, str]) -> str:
    parts = [*_causes(rebalance), _result(rebalance), _slowest(rebalance, clients)]
    return " ".join(f"{part[0].upper()}{part[1:]}." for part in parts if part)


def _result(rebalance: GroupRebalance) -> str:
    if rebalance.classic:
        moved = ""
    elif rebalance.target_epoch < 0 and rebalance.until is None:
        return "its target assignment is not computed yet"
    else:
        moved = f"{_count(rebalance.assigned, 'partition')} moved"
    if rebalance.until is None:
        return f"{moved} so far; it is not over yet" if moved else "it is not over yet"
    told, ending = moved, _ending(rebalance)
    if ending:
        told = f"{moved}, then {ending}" if rebalance.assigned else ending
    if told and ending and rebalance.until == rebalance.since:
        return told
    took = f"it took {span_text(rebalance.until - rebalance.since)}"
    return f"{told}; {took}" if told else took


def _ending(rebalance: GroupRebalance) -> str:
    if rebalance.end is RebalanceEnd.COMPLETED and rebalance.classic:
        members = _count(rebalance.members or 0, "member")
        return f"the group has {members} in generation {rebalance.epoch}"
    return "" if rebalance.end is None else _ENDINGS.get(rebalance.end, "")


def _slowest(rebalance: GroupRebalance, clients: Mapping[str, str]) -> str:
    """Says which member took longest to give partitions up. Other members have waited for it since
    the target was installed, also before the member was notified."""
    target_at = rebalance.target_at
    took = [
        (part.until - (part.since if target_at is None else min(part.since, target_at)), part)
        for part in rebalance.parts
        if part.kind is PartKind.REVOKE and not part.facts.keys() & {"left", "unfinished"}
    ]
    if not took:
        return ""
    took_ms, part = max(took, key=lambda one: (one[0], one[1].member_id))
    member = _member(part.member_id, clients.get(part.member_id, ""))
    return f"{member} took longest to revoke partitions: {span_text(took_ms)}"


def _member(member_id: str, client_id: str) -> str:
    return f"member {member_id} (client {client_id})" if client_id else f"member {member_id}"


def _text(event: Event) -> str:
    """Returns the event in words, without the member, which is shown beside it."""
    cause, details = event.cause, event.details
    match event.kind:
        case EventKind.GROUP_EPOCH_BUMPED:
            word = "generation" if event.group_type == CLASSIC else "epoch"
            return f"{word} {event.epoch}: {cause}"
        case EventKind.TARGET_INSTALLED:
            moved = _count(details["moved_members"], "member")
            return f"the target assignment is {cause}; it changes what {moved} may have"
        case EventKind.PARTITIONS_REVOKING:
            limit = span_text(details["rebalance_timeout_ms"])
            return f"is to revoke {_partitions(details['partitions'])} within {limit}"
        case EventKind.MEMBER_EPOCH_ADVANCED:
            return f"is at epoch {event.epoch}: {cause}"
        case EventKind.PARTITIONS_ASSIGNED:
            return f"is assigned {_partitions(details['partitions'])}"
        case EventKind.REBALANCE_STARTED:
            return f"a rebalance starts: {cause}"
        case EventKind.REBALANCE_COMPLETED:
            return f"generation {event.epoch} is complete: {cause}"
        case EventKind.REGEX_RESOLVED:
            return f"the regular expression {details['regex']} is resolved: {cause}"
        case EventKind.ASSIGNOR_FAILED:
            return f"the assignor {details['assignor']} has failed: {cause}"
        case kind:
            done = _DONE.get(kind, kind.value.replace("-", " "))
            return f"{done}: {cause}" if cause else done


def _partitions(partitions: Mapping[str, Sequence[int]]) -> str:
    """Names the first partitions: an event may have thousands."""
    names = (f"{topic}-{number}" for topic, numbers in partitions.items() for number in numbers)
    more = sum(map(len, partitions.values())) - NAMED_MAX
    return ", ".join(_some([*islice(names, NAMED_MAX)], max(0, more))) or "nothing"


def _some(texts: Sequence[str], more: int = 0) -> list[str]:
    """Returns the first texts and, if there are others, "and N more". `more`: how many there are
    besides `texts`."""
    more += max(0, len(texts) - NAMED_MAX)
    return [*texts[:NAMED_MAX], *([f"and {more} more"] if more else [])]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
