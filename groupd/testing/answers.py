"""What the harness answers with, as dictionaries: the same names in Python, on the admin port and
over the control API.

`NotRequired` entries are those of one type of group only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired, TypedDict


class GroupEvent(TypedDict):
    """One thing that happened in a group. `event`: "member-fenced", "offsets-committed" and so on
    (docs/testing.md); `member_id` "" and `epoch` -1: it has none; `cause`: why, in words;
    `details`: facts that depend on `event`."""

    sequence: int
    timestamp_ms: int
    event: str
    member_id: str
    epoch: int
    cause: str
    details: Mapping[str, object]


class GroupSummary(TypedDict):
    """One of `groups()`. `type`: "consumer", "classic" or what Kafka calls it otherwise."""

    group_id: str
    type: str
    state: str


class PendingDeadline(TypedDict):
    """A timer that runs. `member_id` "": it is the group's."""

    kind: str
    member_id: str
    in_ms: int


class Blocked(TypedDict):
    """Something that the group waits for: `why`, in words. `member_id`: who waits or is waited for,
    "" = the group as a whole. `in_ms`: when the coordinator stops waiting, whatever happens; None =
    there is no such time. Where a member waits for a partition: which one, who holds it, and
    whether that one has been told to give it up."""

    member_id: str
    why: str
    in_ms: int | None
    topic: NotRequired[str]
    partition: NotRequired[int]
    held_by: NotRequired[str]
    revoking: NotRequired[bool]


class Member(TypedDict):
    """A member of a group. `protocol`: "consumer" or "classic"; `owned` and the other partitions:
    topic -> partitions."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    protocol: str
    rebalance_timeout_ms: int
    subscribed_topic_names: list[str]
    owned: dict[str, list[int]]
    # Of consumer groups
    rack_id: NotRequired[str | None]
    state: NotRequired[str]
    member_epoch: NotRequired[int]
    previous_member_epoch: NotRequired[int]
    subscribed_topic_regex: NotRequired[str | None]
    server_assignor: NotRequired[str | None]
    pending_revocation: NotRequired[dict[str, list[int]]]
    target: NotRequired[dict[str, list[int]]]
    # Of classic groups
    session_timeout_ms: NotRequired[int]
    protocols: NotRequired[list[str]]
    join_parked: NotRequired[bool]
    sync_parked: NotRequired[bool]


class GroupDescription(TypedDict):
    """A group as the coordinator sees it. `blocked`: who waits for whom; `waiting_for`: members
    whose request a classic group waits for."""

    group_id: str
    type: str
    state: str
    members: list[Member]
    config_overrides: dict[str, str]
    deadlines: list[PendingDeadline]
    # Of consumer groups
    group_epoch: NotRequired[int]
    assignment_epoch: NotRequired[int]
    assignment_timestamp_ms: NotRequired[int]
    resolved_regexes: NotRequired[dict[str, list[str]]]
    blocked: NotRequired[list[Blocked]]
    # Of classic groups
    generation: NotRequired[int]
    protocol_type: NotRequired[str]
    protocol_name: NotRequired[str | None]
    leader: NotRequired[str | None]
    pending_members: NotRequired[list[str]]
    waiting_for: NotRequired[list[str]]


class RecipeResult(TypedDict):
    """What a recipe did. `faults`: the numbers of those that it added; `members`: whom it hit;
    `expired`: partitions whose offsets are gone, [topic, partition]; `code`: the error."""

    faults: list[int]
    members: NotRequired[list[str]]
    expired: NotRequired[list[tuple[str, int]]]
    code: NotRequired[str]
