"""A reply as lines: what a scenario compares. Error messages are free text and are left out unless
the command asks for them, but an error that must come without a message says so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from groupd.protocol.errors import ErrorCode
from tests.scenarios.runner.backend import Names, Ticket
from tests.scenarios.runner.command import Partitions, show_numbers, show_partitions
from tests.scenarios.runner.payloads import show_assignment, show_subscription
from tests.support.kio_entities import Plain

NOT_ASKED = -2147483648
DEFAULT_INTERVAL_MS = 5000


def show_reply(ticket: Ticket, names: Names) -> list[str]:
    """`label: ...`, further lines indented."""
    assert ticket.reply is not None
    first, *more = _SHOW[ticket.api](ticket, ticket.reply, names)
    return [f"{ticket.label}: {first}".rstrip(), *(f"  {line}" for line in more)]


def error_name(code: int) -> str:
    return ErrorCode(code).name


def _failed(reply: Plain) -> str:
    text = error_name(reply["error_code"])
    if "error_message" in reply and reply["error_message"] is None:
        text += " without message"
    return text


def bind_member(ticket: Ticket, names: Names) -> None:
    """A reply that hands out a member id makes the actor its alias."""
    member_id = (ticket.reply or {}).get("member_id")
    if member_id and not ticket.fields["member_id"] and ticket.actor:
        names.members[ticket.actor] = member_id


def bind_producer(ticket: Ticket, names: Names) -> None:
    """A reply that hands out a producer id makes the actor its alias."""
    if ticket.api == "InitProducerId" and ticket.reply and not ticket.reply["error_code"]:
        names.producers[ticket.actor] = ticket.reply["producer_id"], ticket.reply["producer_epoch"]


def _by_topic(names: Names, topics: Iterable[Plain], key: str = "partitions") -> Partitions:
    return {names.topic_of(topic["topic_id"]): topic[key] for topic in topics}


def _consumer_heartbeat(ticket: Ticket, reply: Plain, names: Names) -> list[str]:
    if reply["error_code"]:
        text = reply["error_message"] if ticket.with_text else None
        shown = "" if text is None else f' "{names.back_in(text)}"'
        return [_failed(reply) + shown]
    facts = [f"epoch={reply['member_epoch']}"]
    if ticket.fields["member_id"] != reply["member_id"]:
        facts.append("with an id")
    expected = DEFAULT_INTERVAL_MS if reply["member_epoch"] >= 0 else 0
    if reply["heartbeat_interval"] != expected:
        facts.append(f"interval={reply['heartbeat_interval']}")
    if reply["assignment"] is not None:
        facts.append(show_partitions(_by_topic(names, reply["assignment"]["topic_partitions"])))
    return [" ".join(facts)]


def _describe(
    show: Callable[[Names, Plain], str], _: Ticket, reply: Plain, names: Names
) -> list[str]:
    """Groups of types with epochs; `show` shows a member."""
    lines = []
    for group in reply["groups"]:
        name = names.back(group["group_id"]) or '""'
        if group["error_code"]:
            members = f" {len(group['members'])} members" if group["members"] else ""
            lines.append(f"{name} {_failed(group)}{members}")
            continue
        head = f"{name} {group['group_state']} epoch={group['group_epoch']}"
        head += f" assignment={group['assignment_epoch']} {group['assignor_name']}"
        if group["authorized_operations"] != NOT_ASKED:
            head += f" operations={group['authorized_operations']}"
        lines.append(head)
        members = sorted(group["members"], key=lambda one: names.alias(one["member_id"]))
        lines += [show(names, member) for member in members]
    return lines if len(reply["groups"]) == 1 else ["", *lines]


def _consumer_member(names: Names, member: Plain) -> str:
    facts = [names.alias(member["member_id"]), f"epoch={member['member_epoch']}"]
    topics = sorted(map(names.back, member["subscribed_topic_names"]))
    facts.append(f"names=[{','.join(topics)}]")
    regex = member["subscribed_topic_regex"]
    optional = {
        "instance": member["instance_id"],
        "rack": member["rack_id"],
        "regex": f'"{names.regex_back(regex)}"' if regex else regex,
    }
    facts += [f"{name}={value}" for name, value in optional.items() if value]
    for label in ("assignment", "target_assignment"):
        topics = member[label]["topic_partitions"]
        shown = show_partitions({names.back(t["topic_name"]): t["partitions"] for t in topics})
        facts.append(shown if label == "assignment" else f"target={shown}")
    if "member_type" in member:
        facts.append({0: "classic", 1: "consumer"}.get(member["member_type"], "?"))
    return " ".join(facts)


def _share_member(names: Names, member: Plain) -> str:
    facts = [names.alias(member["member_id"]), f"epoch={member['member_epoch']}"]
    facts.append(f"names=[{','.join(sorted(map(names.back, member['subscribed_topic_names'])))}]")
    if member["rack_id"]:
        facts.append(f"rack={member['rack_id']}")
    topics = member["assignment"]["topic_partitions"]
    held = {names.back(topic["topic_name"]): topic["partitions"] for topic in topics}
    return " ".join([*facts, show_partitions(held)])


def _share_offsets(_: Ticket, reply: Plain, names: Names) -> list[str]:
    """`foo-0=40 epoch=0 lag=65`; `?` behind a topic without an id."""
    lines = []
    for group in reply["groups"]:
        name = names.back(group["group_id"]) or '""'
        if group["error_code"]:
            lines.append(f"{name} {error_name(group['error_code'])}")
            continue
        shown = []
        for topic in group["topics"]:
            mark = "" if any(topic["topic_id"]) else "?"
            for one in topic["partitions"]:
                text = f"{names.back(topic['topic_name'])}{mark}-{one['partition_index']}"
                text += f"={one['start_offset']}"
                if one["leader_epoch"]:
                    text += f" epoch={one['leader_epoch']}"
                if "lag" in one:
                    text += f" lag={one['lag']}"
                if one["error_code"]:
                    text += f" {error_name(one['error_code'])}"
                shown.append(text)
        lines.append(f"{name} {', '.join(sorted(shown)) or 'no topics'}")
    return lines if len(reply["groups"]) == 1 else ["", *lines]


def _share_alter(_: Ticket, reply: Plain, names: Names) -> list[str]:
    if reply["error_code"]:
        return [error_name(reply["error_code"]) + (" with topics" if reply["responses"] else "")]
    shown = []
    for topic in reply["responses"]:
        mark = "" if any(topic["topic_id"]) else "?"
        for one in topic["partitions"]:
            place = f"{names.back(topic['topic_name'])}{mark}-{one['partition_index']}"
            shown.append(f"{place} {error_name(one['error_code'])}")
    return [", ".join(sorted(shown)) or "no topics"]


def _share_delete(_: Ticket, reply: Plain, names: Names) -> list[str]:
    if reply["error_code"]:
        return [error_name(reply["error_code"]) + (" with topics" if reply["responses"] else "")]
    shown = [
        f"{names.back(topic['topic_name'])} {error_name(topic['error_code'])}"
        for topic in reply["responses"]
    ]
    return [", ".join(sorted(shown)) or "no topics"]


def _join(ticket: Ticket, reply: Plain, names: Names) -> list[str]:
    member = names.alias(reply["member_id"])
    if reply["error_code"]:
        text = _failed(reply)
        if member != ticket.actor:
            text += f" id={member}"
        return [text + (f" gen={reply['generation_id']}" if reply["generation_id"] != -1 else "")]
    facts = [f"gen={reply['generation_id']}"]
    name = reply["protocol_name"]
    facts.append(f"name={name}" if name else f"name={name!r}")
    if reply.get("protocol_type", "consumer") != "consumer":
        facts.append(f"type={reply['protocol_type']!r}")
    if member != ticket.actor:
        facts.append(f"id={member}")
    facts.append(f"leader={names.alias(reply['leader'])}")
    if reply["members"]:
        facts.append(f"members=[{','.join(_joined(names, reply['members']))}]")
    if reply.get("skip_assignment"):
        facts.append("skip")
    return [" ".join(facts)]


def _joined(names: Names, members: list[Plain]) -> list[str]:
    shown = []
    for member in members:
        text = f"{names.alias(member['member_id'])}={show_subscription(member['metadata'], names)}"
        instance = member.get("group_instance_id")
        shown.append(f"{text}/{instance}" if instance else text)
    return sorted(shown)


def _sync(_: Ticket, reply: Plain, names: Names) -> list[str]:
    if reply["error_code"]:
        return [_failed(reply)]
    facts = [show_assignment(reply["assignment"], names)]
    for name, default in (("protocol_type", "consumer"), ("protocol_name", "range")):
        if reply.get(name, default) != default:
            facts.append(f"{name.removeprefix('protocol_')}={reply[name]}")
    return [" ".join(facts)]


def _heartbeat(_: Ticket, reply: Plain, __: Names) -> list[str]:
    return [error_name(reply["error_code"])]


def _leave(_: Ticket, reply: Plain, names: Names) -> list[str]:
    text = error_name(reply["error_code"])
    members = []
    for member in reply.get("members", ()):
        instance = member["group_instance_id"]
        who = names.alias(member["member_id"]) + (f"/{instance}" if instance else "")
        members.append(f"{who} {error_name(member['error_code'])}")
    return [text + (f" [{', '.join(members)}]" if members else "")]


def _topic_name(names: Names, topic: Plain) -> str:
    return names.topic_of(topic["topic_id"]) if "topic_id" in topic else names.back(topic["name"])


def _partition_errors(names: Names, topics: Iterable[Plain]) -> str:
    """`NONE foo:0-1; STALE_MEMBER_EPOCH bar:0`."""
    by_error: dict[str, Partitions] = {}
    for topic in topics:
        for one in topic["partitions"]:
            found = by_error.setdefault(error_name(one["error_code"]), {})
            found.setdefault(_topic_name(names, topic), []).append(one["partition_index"])
    return "; ".join(
        f"{error} {show_partitions(found)[1:-1]}" for error, found in sorted(by_error.items())
    )


def _commit(_: Ticket, reply: Plain, names: Names) -> list[str]:
    return [_partition_errors(names, reply["topics"])]


def _fetch(_: Ticket, reply: Plain, names: Names) -> list[str]:
    if "groups" not in reply:
        return [_fetched(names, reply)]
    if len(reply["groups"]) == 1:
        return [_fetched(names, reply["groups"][0])]
    return ["", *(f"{names.back(g['group_id'])}: {_fetched(names, g)}" for g in reply["groups"])]


def _fetched(names: Names, group: Plain) -> str:
    if group.get("error_code"):
        return error_name(group["error_code"])
    shown = []
    for topic in group["topics"]:
        for one in topic["partitions"]:
            text = f"{_topic_name(names, topic)}-{one['partition_index']}={one['committed_offset']}"
            if one["metadata"]:
                text += f':"{one["metadata"]}"'
            if one["error_code"]:
                text += f" {error_name(one['error_code'])}"
            shown.append(text)
    return ", ".join(sorted(shown)) or "no topics"


def _delete_offsets(_: Ticket, reply: Plain, names: Names) -> list[str]:
    if reply["error_code"]:
        return [error_name(reply["error_code"]) + (" with topics" if reply["topics"] else "")]
    return [_partition_errors(names, reply["topics"]) or "no topics"]


def _list(_: Ticket, reply: Plain, names: Names) -> list[str]:
    if reply["error_code"]:
        return [error_name(reply["error_code"])]
    mine = [group for group in reply["groups"] if group["group_id"].startswith(names.prefix)]
    shown = []
    for group in sorted(mine, key=lambda one: str(one["group_id"])):
        kinds = [group["protocol_type"] or '""', group.get("group_state"), group.get("group_type")]
        shown.append(" ".join([names.back(group["group_id"]), *(kind for kind in kinds if kind)]))
    return [", ".join(shown) or "none"]


def _describe_classic(_: Ticket, reply: Plain, names: Names) -> list[str]:
    lines = []
    for group in reply["groups"]:
        name = names.back(group["group_id"]) or '""'
        head = f"{name} {group['group_state']}"
        if group["error_code"]:
            head += f" {error_name(group['error_code'])}"
        if group["protocol_type"]:
            head += f" type={group['protocol_type']}"
        if group["protocol_data"]:
            head += f" protocol={group['protocol_data']}"
        if group.get("authorized_operations", NOT_ASKED) != NOT_ASKED:
            head += f" operations={group['authorized_operations']}"
        lines.append(head)
        lines += sorted(_classic_member(names, member) for member in group["members"])
    return lines if len(reply["groups"]) == 1 else ["", *lines]


def _classic_member(names: Names, member: Plain) -> str:
    text = names.alias(member["member_id"])
    if member.get("group_instance_id"):
        text += f"/{member['group_instance_id']}"
    metadata = show_subscription(member["member_metadata"], names)
    return f"{text} {metadata} {show_assignment(member['member_assignment'], names)}"


def _delete_groups(_: Ticket, reply: Plain, names: Names) -> list[str]:
    results = reply["results"]
    shown = [f"{names.back(one['group_id'])} {error_name(one['error_code'])}" for one in results]
    return [", ".join(sorted(shown))]


def _find_coordinator(_: Ticket, reply: Plain, names: Names) -> list[str]:
    if "coordinators" not in reply:
        return [error_name(reply["error_code"])]
    shown = []
    for one in reply["coordinators"]:
        found = "found"
        if one["error_code"]:
            nobody = (one["node_id"], one["host"], one["port"]) == (-1, "", -1)
            found = error_name(one["error_code"]) + ("" if nobody else " with a node")
        shown.append(f"{names.back(one['key']) or chr(34) * 2} {found}")
    return [", ".join(shown) or "none"]


def _markers(_: Ticket, reply: Plain, __: Names) -> list[str]:
    (marker,) = reply["markers"]
    ((partition,),) = (topic["partitions"] for topic in marker["topics"])
    return [error_name(partition["error_code"])]


def _alter_configs(_: Ticket, reply: Plain, __: Names) -> list[str]:
    return [", ".join(error_name(one["error_code"]) for one in reply["responses"])]


_SHOW: Mapping[str, Callable[[Ticket, Any, Names], list[str]]] = {
    "ConsumerGroupHeartbeat": _consumer_heartbeat,
    "ConsumerGroupDescribe": partial(_describe, _consumer_member),
    "ShareGroupHeartbeat": _consumer_heartbeat,
    "ShareGroupDescribe": partial(_describe, _share_member),
    "DescribeShareGroupOffsets": _share_offsets,
    "AlterShareGroupOffsets": _share_alter,
    "DeleteShareGroupOffsets": _share_delete,
    "JoinGroup": _join,
    "SyncGroup": _sync,
    "Heartbeat": _heartbeat,
    "LeaveGroup": _leave,
    "OffsetCommit": _commit,
    "OffsetFetch": _fetch,
    "InitProducerId": _heartbeat,
    "AddOffsetsToTxn": _heartbeat,
    "TxnOffsetCommit": _commit,
    "WriteTxnMarkers": _markers,
    "OffsetDelete": _delete_offsets,
    "ListGroups": _list,
    "DescribeGroups": _describe_classic,
    "DeleteGroups": _delete_groups,
    "FindCoordinator": _find_coordinator,
    "IncrementalAlterConfigs": _alter_configs,
}
__all__ = ["error_name", "show_numbers", "show_reply"]
