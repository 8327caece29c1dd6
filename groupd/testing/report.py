"""A group as text, for the reports of failing tests."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from groupd.coordinator.suggest import did_you_mean
from groupd.testing.answers import GroupDescription, Member

GROUPS_MAX = 5


def group_text(group: GroupDescription, topics: Collection[str]) -> str:
    """The state, the members, what they subscribe to, and which member waits for which: the view of
    `/groups/{id}` in a few lines. `topics`: those that there are."""
    if group is None:
        return "there is no such group"
    epoch = group.get("group_epoch", group.get("generation"))
    lines = [f"{group['type']} group in state {group['state']}, epoch {epoch}"]
    for member in group.get("members", ()):
        name = member["member_id"] + (f" ({member['client_id']})" if member["client_id"] else "")
        facts = f"owns {_places(member['owned'])}"
        if "member_epoch" in member:
            facts = f"epoch {member['member_epoch']}, {member['state']}, {facts}"
            if member["pending_revocation"]:
                facts += f", gives up {_places(member['pending_revocation'])}"
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
