"""The text of a wait that ran out of time: the state of the group, and what else the broker
knows."""

from __future__ import annotations

from groupd.coordinator.runtime.timeline import timeline_text
from groupd.coordinator.suggest import did_you_mean, there_are
from groupd.testing.answers import GroupDescription
from groupd.testing.engine import Engine
from groupd.testing.known import group_meant, group_names, topic_names
from groupd.testing.report import group_text

EVENTS_SHOWN = 8
LOOKED_FOR_SHOWN = 10


def explain_group(engine: Engine, group: str, wanted: str, members: int | None = None) -> str:
    """The state of the group as text. `wanted`: what was waited for; `members`: the number of
    members that was waited for, if any."""
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
    lines.append(what_is_there(engine))
    return "\n".join(lines)


def unacknowledged(engine: Engine, group: str, shown: GroupDescription) -> list[str]:
    """The members that have not acknowledged the group's current epoch or generation."""
    wanted = shown.get("group_epoch", shown.get("generation", 0))
    return [
        one["member_id"]
        for one in shown["members"]
        if engine.acknowledged(group, one["member_id"]) < wanted
    ]


def what_is_there(engine: Engine) -> str:
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
