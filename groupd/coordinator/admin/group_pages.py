"""Pages about one group: its lag over the last hour, its rebalances, its settings, and what another
assignor would do with it (`/groups/{id}/what-if`), for operators who think of changing a
setting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from math import sqrt
from typing import Any

from groupd.coordinator.admin.http_messages import refusal
from groupd.coordinator.config.coordinator_config import FIELDS_BY_KEY, CoordinatorConfig
from groupd.coordinator.config.values import SOURCE_GROUP
from groupd.coordinator.core.assignors.api import Assignment
from groupd.coordinator.core.blocked import topic_name
from groupd.coordinator.core.errors import AssignorFailed, TrialRefused
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.group_types import group_configs, type_of
from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.coordinator.core.slices import Pace, Steps, chunks, sorted_in_steps
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.history.rebalance_fold import EventInputs, rebalance_steps
from groupd.coordinator.history.rebalance_text import rebalance_rows
from groupd.coordinator.lag.growth import MINUTE_MS, MINUTES
from groupd.coordinator.lag.judgement import Judgement, SilentMember
from groupd.coordinator.lag.rows import judgement_text, seconds
from groupd.coordinator.lag.watch import GroupLag, LagWatch, PartitionLag
from groupd.coordinator.plain_text import span_text
from groupd.protocol.messages import TopicId, TopicPartition

PARTITIONS_SHOWN = 50
"""For how many partitions of a group the last hour is shown: those with the most lag now."""

MEMBERS_SHOWN = 50
"""How many members that commit nothing are shown: those that are silent for longest."""
MOVES_SHOWN = 5000
"""How many moves are listed one by one; `moved` counts all."""
_Place = tuple[TopicId, int]
_Changes = dict[_Place, tuple[str | None, str | None]]
"""The partitions that would get another owner: the present owner, and the proposed one."""


def lag_steps(watch: LagWatch, asked: Group) -> Steps[dict[str, Any]]:
    """The type and state of a group, and its lag according to the last round: `round` (the number
    of the round), `lag`, `lag_seconds`, `judgement`, `reason`, `silent` (the first of the members
    that commit nothing although records wait), `silent_count` (the number of these members), and
    `history` (the lag of each minute of the last hour: in all, and of partitions that were behind
    in it). A value that is not known is None. A group that has committed nothing has no history."""
    group_id, now = asked.group_id, watch.now()
    group = watch.groups.get(group_id)
    shown: dict[str, Any] = {
        "group_id": group_id,
        "type": asked.type_name,
        "state": asked.state_name(),
        "round": watch.rounds,
        "now_ms": now.wall_ms,
    }
    if group is None:
        known = dict.fromkeys(("lag", "lag_seconds", "judgement", "reason", "history"))
        return {**shown, **known, "silent": [], "silent_count": 0}
    history = yield from _history(watch, group_id, group)
    silent = [silent_row(one, asked, now.monotonic_ms) for one in group.silent[:MEMBERS_SHOWN]]
    return {
        **shown,
        "lag": group.totals.lag,
        "lag_seconds": seconds(group.totals.age_ms),
        "judgement": judgement_text(group.totals.judgement),
        "reason": reason(group, asked, now.monotonic_ms),
        "silent": silent,
        "silent_count": len(group.silent),
        "history": history,
    }


def _history(watch: LagWatch, group_id: str, group: GroupLag) -> Steps[dict[str, Any]]:
    """The history of the hour before the last round. After the round there may be a minute without
    any value yet."""
    behind: list[tuple[int, TopicPartition]] = []
    for some in chunks(group.partitions()):
        behind += [(-one.lag, place) for place, one in some if (group_id, place) in watch.trends]
        yield
    until = watch.round_at
    now_ms, shown = until.monotonic_ms, []
    for _, (topic, number) in sorted(behind)[:PARTITIONS_SHOWN]:
        trend = watch.trends.get((group_id, (topic, number)))
        if trend is not None:  # else a later round has found that there is no lag any more
            shown.append({"topic": topic, "partition": number, "lag": trend.minutes(now_ms)})
    last_ms = until.wall_ms - now_ms % MINUTE_MS
    return {
        "times_ms": [last_ms - at * MINUTE_MS for at in reversed(range(MINUTES))],
        "total": group.trend.minutes(now_ms),
        "partitions": shown,
        "left_out": max(0, len(behind) - PARTITIONS_SHOWN),
    }


def reason(group: GroupLag, asked: Group, now_ms: int) -> str | None:
    """Why a group is judged as it is, in a sentence about the member that is silent for longest, or
    about its worst partition; None while the judgement is not known. `now_ms`: the monotonic time
    of the watch."""
    totals = group.totals
    if totals.judgement is None:
        return None
    if totals.judgement is Judgement.OK or totals.worst is None:
        return "no records wait" if not totals.lag else f"{_records(totals.lag)}, and it keeps up"
    if group.silent:
        text: str = silent_row(group.silent[0], asked, now_ms)["text"]
        others = _others(len(group.silent) - 1, "member", "silent")
        return text + others
    topic, number = totals.worst
    worst = group.partition(topic, number)
    why = "" if worst is None else _why(worst, now_ms)
    return f"{topic}-{number}: {why}{_others(totals.others, 'partition', totals.judgement.value)}"


def silent_row(one: SilentMember, asked: Group, now_ms: int) -> dict[str, Any]:
    """A row about a member that commits nothing: how long it has been silent, how many records wait
    for it, and both in a sentence."""
    member = asked.members.get(one.member_id)
    client = ""
    if member is not None:
        client = f" (client {member.client_id} at {member.client_host.removeprefix('/')})"
    silent_ms = max(0, now_ms - one.since_ms)
    places = ", ".join(f"{topic}-{number}" for topic, number in one.first_partitions)
    more = one.partitions - len(one.first_partitions)
    return {
        "member_id": one.member_id,
        "silent_ms": silent_ms,
        "lag": one.lag,
        "text": (
            f"{one.member_id}{client} is in the group, but has committed nothing for "
            f"{span_text(silent_ms)}, although {_records(one.lag)} in {places}"
            + f" and {more} more"
            * (more > 0)
        ),
    }


def _others(count: int, noun: str, judgement: str) -> str:
    if count <= 0:
        return ""
    counted = f"1 more {noun} is" if count == 1 else f"{count} more {noun}s are"
    return f" ({counted} {judgement})"


def _why(one: PartitionLag, now_ms: int) -> str:
    waits, silent_ms = _records(one.lag), one.silent_ms(now_ms)
    silent = f"nothing was committed for {span_text(silent_ms)}, although {waits}"
    match one.judgement:
        case Judgement.REWOUND:
            ago = span_text(max(0, now_ms - one.rewound_ms))
            return f"its committed offset went back {ago} ago, and is {one.offset} now"
        case Judgement.STOPPED:
            return f"no member has it, and {silent}"
        case Judgement.STALLED if one.committed_ms <= one.moved_ms:
            return silent
        case Judgement.STALLED:
            stands = span_text(max(0, now_ms - one.moved_ms))
            return f"offset {one.offset} was committed again and again for {stands}; {waits}"
        case _:
            return f"it commits, but the lag does not become less; {waits}"


def _records(count: int) -> str:
    return "1 record waits" if count == 1 else f"{count} records wait"


def rebalances_page(group: Group, inputs: EventInputs) -> Steps[list[dict[str, Any]]]:
    """The rebalances in a group's timeline: see `rebalance_rows`."""
    found = yield from rebalance_steps(inputs, group.state_name())
    told = {event.member_id for one in found for _, event in one.steps} & group.members.keys()
    identify = type_of(group).identify
    clients = {member_id: identify(group, member_id).client_id for member_id in sorted(told)}
    return rebalance_rows(found, clients)


def config_rows(
    config: CoordinatorConfig, overrides: Mapping[str, str] | None
) -> list[dict[str, str | None]]:
    """The settings of a group: `name`, `value`, and `source`: group (its own setting), broker (set
    by a flag, a file or a client), or default."""
    rows, configs = [], group_configs()
    for one in configs.describe(config, overrides):
        field = FIELDS_BY_KEY.get(configs.keys[one.name].broker_key or "")
        is_default = field is None or getattr(config, field.name) == field.default
        of_broker = "default" if is_default else "broker"
        source = "group" if one.source == SOURCE_GROUP else of_broker
        rows.append({"name": one.name, "value": one.value, "source": source})
    return rows


def what_if_steps(state: ShardState, group: Group, name: str | None) -> Steps[dict[str, Any]]:
    """What another assignor would do with a group.

    Without a `name`: the `assignors` that exist, and the one that is `used`, None if the members
    assign by themselves. With a `name`: `compared`, a text that says what is compared; `moves`
    (topic, partition, `from` and `to`: member ids or None); the `target` by member, topic and
    partitions; and for `current` and `proposed` how many partitions each member has, and in
    `balance` how even that is.

    Raises Refusal for a group on which no assignor can be tried, an assignor that does not exist,
    and one that fails."""
    what_if = type_of(group).what_if
    if what_if is None:
        raise refusal(f"no assignor can be tried on a {group.type_name} group")
    try:
        if name is None:
            return {"assignors": list(state.assignors), "used": what_if.used(state, group)}
        if name not in state.assignors:
            raise refusal(f"assignor must be one of {', '.join(state.assignors)}")
        proposal = yield from what_if.propose(state, group, name)
    except TrialRefused as error:
        raise refusal(str(error)) from None
    except AssignorFailed as error:
        raise refusal(f"the assignor {error.assignor} failed: {error.fault}") from None
    now, then = proposal.current, proposal.proposed
    changed = yield from _changes(now, then)
    moves = yield from _moves(changed, state.image)
    target: dict[str, dict[str, list[int]]] = {}
    for some in chunks(then.items()):
        for member_id, given in some:
            target[member_id] = {topic_name(one, state.image): list(given[one]) for one in given}
        yield
    counts, counts_then = (yield from _counts(now)), (yield from _counts(then))
    balance = yield from _balance(counts.values())
    balance_then = yield from _balance(counts_then.values())
    return {
        "group_id": group.group_id,
        "assignor": name,
        "compared": proposal.compared,
        "moves": moves,
        "moved": len(changed),
        "target": target,
        "current": counts,
        "proposed": counts_then,
        "balance": {"current": balance, "proposed": balance_then},
    }


def _changes(now: Mapping[str, Assignment], then: Mapping[str, Assignment]) -> Steps[_Changes]:
    before = yield from _owners(now)
    after = yield from _owners(then)
    changed: _Changes = {}
    pace = Pace()
    for place, source in before.items():
        target = after.pop(place, None)
        if source != target:
            changed[place] = source, target
        if pace.due():
            yield
    for some in chunks(after.items()):
        changed.update((place, (None, target)) for place, target in some)
        yield
    return changed


def _moves(changed: _Changes, image: MetadataImage) -> Steps[list[dict[str, Any]]]:
    """The first moves, by topic id and partition."""
    places = yield from sorted_in_steps(changed)
    moves = []
    for some in chunks(islice(places, MOVES_SHOWN)):
        for topic, number in some:
            source, target = changed[topic, number]
            name = topic_name(topic, image)
            moves.append({"topic": name, "partition": number, "from": source, "to": target})
        yield
    return moves


def _owners(targets: Mapping[str, Assignment]) -> Steps[dict[_Place, str]]:
    owners: dict[_Place, str] = {}
    pace = Pace()
    for member_id, given in targets.items():
        for topic, numbers in given.items():
            owners.update(((topic, number), member_id) for number in numbers)
            if pace.due(len(numbers)):
                yield
        if pace.due():
            yield
    return owners


def _counts(targets: Mapping[str, Assignment]) -> Steps[dict[str, int]]:
    counts: dict[str, int] = {}
    for some in chunks(targets.items()):
        counts.update((member_id, sum(map(len, given.values()))) for member_id, given in some)
        yield
    return counts


def _balance(counts: Iterable[int]) -> Steps[dict[str, float]]:
    """How even the counts are: the `least` and `most` partitions of a member, and the standard
    `deviation`."""
    size = total = squares = most = 0
    least: int | None = None
    for some in chunks(counts):
        size += len(some)
        total += sum(some)
        squares += sum(one * one for one in some)
        least = min(some) if least is None else min(least, *some)
        most = max(most, *some)
        yield
    deviation = sqrt(size * squares - total * total) / size if size else 0.0
    return {"least": least or 0, "most": most, "deviation": round(deviation, 2)}
