"""The texts that tests show: why a wait timed out, groups as text, and errors for names that do not
exist, which list the existing names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from groupd.coordinator.core.inspection import list_group_summaries
from groupd.coordinator.faults.errors import NotFound
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.coordinator.runtime.timeline import timeline_text
from groupd.coordinator.suggest import did_you_mean, there_are
from groupd.coordinator.topics.topic import Topic
from groupd.testing.answers import GroupDescription, Member
from groupd.testing.engine import Engine

GROUPS_MAX = 5
EVENTS_SHOWN = 8
LOOKED_FOR_SHOWN = 10


def find_topic(engine: Engine, name: str) -> Topic:
    """The topic called `name`. Raises NotFound."""
    found = engine.daemon.parts.data_plane.catalogue.topic(name)
    if found is None:
        known = topic_names(engine)
        hint = did_you_mean(name, known)
        raise NotFound(f"no topic {name}{hint}; topics: {there_are(known)}")
    return found


def topic_names(engine: Engine) -> list[str]:
    """The names of all topics except internal ones."""
    topics = engine.daemon.parts.data_plane.catalogue.topics()
    return [topic.name for topic in topics if not topic.internal]


def group_names(engine: Engine) -> set[str]:
    """The groups that exist: live groups, and groups of which only offsets are left."""
    live = {
        str(summary["group_id"])
        for shard in engine.broker.shards
        if shard.state is CoordinatorState.ACTIVE
        for summary in list_group_summaries(shard.shard.state)
    }
    return live | {group for group, _, _ in engine.offsets}


def check_group(engine: Engine, name: str) -> None:
    """Raises NotFound for a group that never existed: it has no events, and no client has named
    it."""
    was_there = name in engine.history or name in engine.clients.groups
    if not was_there and name not in group_names(engine):
        raise no_group(engine, name)


def no_group(engine: Engine, name: str) -> NotFound:
    """The error for a group that does not exist."""
    return NotFound(
        f"no group {name}{group_meant(engine, name)}; groups: {there_are(group_names(engine))}"
    )


def group_meant(engine: Engine, name: str) -> str:
    """ "; did you mean billing?", or "" if no group has a similar name."""
    return did_you_mean(name, group_names(engine) | engine.clients.groups.keys())


def group_text(group: GroupDescription, topics: Collection[str]) -> str:
    """The group as `/groups/{id}` shows it, in a few lines of text: its state, its members, what
    they subscribe to, and which member waits for which. `topics`: the existing topics."""
    if group is None:
        return "there is no such group"
    epoch = group.get("group_epoch", group.get("generation"))
    lines = [f"{group['type']} group in state {group['state']}, epoch {epoch}"]
    for member in group.get("members", ()):
        name = member["member_id"] + (f" ({member['client_id']})" if member["client_id"] else "")
        facts = f"owns {_places(member['owned'])}"
        if "member_epoch" in member:
            state = f"{member['state']}, " if "state" in member else ""
            facts = f"epoch {member['member_epoch']}, {state}{facts}"
            if revoking := member.get("pending_revocation"):
                facts += f", gives up {_places(revoking)}"
        lines.append(f"  member {name}: {facts}")
        lines.append(f"    subscribes to {_subscribed(member, topics)}")
    lines += [
        f"  blocked: {entry['member_id'] or 'the group'}: {entry['why']}"
        for entry in group.get("blocked", ())
    ]
    for deadline in group.get("deadlines", ()):
        who = f" of {deadline['member_id']}" if deadline["member_id"] else ""
        lines.append(f"  {deadline['kind']}{who} is due in {deadline['in_ms']} ms")
    return "\n".join(lines)


def _subscribed(member: Member, topics: Collection[str]) -> str:
    found = [
        name if name in topics else f"{name} (there is no such topic{did_you_mean(name, topics)})"
        for name in member["subscribed_topic_names"]
    ]
    if regex := member.get("subscribed_topic_regex"):
        found.append(f"the regular expression {regex}")
    return ", ".join(found) or "nothing"


def _places(owned: Mapping[str, Sequence[int]]) -> str:
    return ", ".join(f"{topic}-{n}" for topic, numbers in owned.items() for n in numbers) or "none"


def explain_group(engine: Engine, group: str, wanted: str, members: int | None = None) -> str:
    """Why a wait for the group timed out: the state of the group and its last events. `wanted`:
    what the test waited for; `members`: the number of members that it waited for, if any."""
    if engine.broker.served.loading:
        return f"group {group} {wanted}; the broker is still loading"
    shown = engine.describe(group)
    lines = [f"group {group} {wanted}"]
    if shown is None:
        named = group in engine.clients.groups
        hint = ", though clients have named it" if named else group_meant(engine, group)
        lines.append(f"there is no group {group}{hint}")
    else:
        if members is not None:
            missing = members - len(shown["members"])
            if missing > 0:
                lines.append(f"{missing} of {members} members are missing")
            elif missing < 0:
                lines.append(f"{-missing} members too many")
        lines.append(group_text(shown, topic_names(engine)))
        if shown["state"] == "Stable" and (silent := unacknowledged(engine, group, shown)):
            lines.append(f"  not acknowledged yet by {', '.join(silent)}")
    events = engine.history.of(group)[-EVENTS_SHOWN:]
    if events:
        lines += ["last events:", timeline_text(events)]
    lines.append(broker_overview(engine))
    return "\n".join(lines)


def unacknowledged(engine: Engine, group: str, shown: GroupDescription) -> list[str]:
    """The members that have not acknowledged the group's current epoch or generation."""
    wanted = shown.get("group_epoch", shown.get("generation", 0))
    return [
        one["member_id"]
        for one in shown["members"]
        if engine.acknowledged(group, one["member_id"]) < wanted
    ]


def broker_overview(engine: Engine) -> str:
    """The groups, topics and clients that the broker knows, in a few lines."""
    topics = topic_names(engine)
    return "\n".join(
        [
            f"groups: {there_are(group_names(engine))}",
            f"topics: {there_are(topics)}",
            *(
                f"clients look for a topic {name}, which is not there{did_you_mean(name, topics)}"
                for name in list(engine.clients.topics)[-LOOKED_FOR_SHOWN:]
                if name not in topics
            ),
            *engine.denials.lines(),
            engine.clients.text(),
        ]
    )
