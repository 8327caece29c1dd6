"""The answers of the harness, as typed dictionaries. The names are the same in Python, on the admin
port and over the control API.

A `NotRequired` entry is present for one type of group only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired, TypedDict


class GroupEvent(TypedDict):
    """One thing that happened in a group. `event`: its name, such as "member-fenced"
    (docs/testing.md has the list). `member_id` is "" and `epoch` -1 where the event has none.
    `cause`: the reason, in words. `details`: further facts, which depend on `event`."""

    sequence: int
    timestamp_ms: int
    event: str
    member_id: str
    epoch: int
    cause: str
    details: Mapping[str, object]


class GroupSummary(TypedDict):
    """One entry of `groups()`. `type`: "consumer", "classic" or Kafka's name of another type."""

    group_id: str
    type: str
    state: str


class PendingDeadline(TypedDict):
    """A timer that is running. `member_id` is "" for a timer of the group as a whole, and for a
    timer of what `of` names, such as a topic and a partition. `in_ms`: the time until it fires."""

    kind: str
    member_id: str
    of: NotRequired[list[str | int]]
    in_ms: int


class Blocked(TypedDict):
    """Something that the group waits for. `why`: the reason, in words. `member_id`: the member that
    waits or is waited for; "" = the group as a whole. `in_ms`: how long the coordinator waits at
    most; None = there is no limit. If a member waits for a partition, the other entries say which
    partition, which member holds it, and whether the holder was told to revoke it."""

    member_id: str
    why: str
    in_ms: int | None
    topic: NotRequired[str]
    partition: NotRequired[int]
    held_by: NotRequired[str]
    revoking: NotRequired[bool]


class Member(TypedDict):
    """A member of a group. `protocol`: "consumer" or "classic". `owned` and the other partition
    entries map a topic to its partitions."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    protocol: str
    rebalance_timeout_ms: int
    subscribed_topic_names: list[str]
    owned: dict[str, list[int]]
    # Consumer groups only
    rack_id: NotRequired[str | None]
    state: NotRequired[str]
    member_epoch: NotRequired[int]
    previous_member_epoch: NotRequired[int]
    subscribed_topic_regex: NotRequired[str | None]
    server_assignor: NotRequired[str | None]
    pending_revocation: NotRequired[dict[str, list[int]]]
    target: NotRequired[dict[str, list[int]]]
    # Classic groups only
    session_timeout_ms: NotRequired[int]
    protocols: NotRequired[list[str]]
    join_parked: NotRequired[bool]
    sync_parked: NotRequired[bool]


class GroupDescription(TypedDict):
    """A group as the coordinator sees it. `blocked`: which member waits for which; `waiting_for`:
    the members whose request a classic group waits for."""

    group_id: str
    type: str
    state: str
    members: list[Member]
    config_overrides: dict[str, str]
    deadlines: list[PendingDeadline]
    # Consumer groups only
    group_epoch: NotRequired[int]
    assignment_epoch: NotRequired[int]
    assignment_timestamp_ms: NotRequired[int]
    resolved_regexes: NotRequired[dict[str, list[str]]]
    blocked: NotRequired[list[Blocked]]
    # Classic groups only
    generation: NotRequired[int]
    protocol_type: NotRequired[str]
    protocol_name: NotRequired[str | None]
    leader: NotRequired[str | None]
    pending_members: NotRequired[list[str]]
    waiting_for: NotRequired[list[str]]


class RecipeResult(TypedDict):
    """What a recipe did. `faults`: the numbers of the faults that it added; `members`: the members
    that it hit; `expired`: the partitions whose offsets expired, as [topic, partition]; `code`: the
    error."""

    faults: list[int]
    members: NotRequired[list[str]]
    expired: NotRequired[list[tuple[str, int]]]
    code: NotRequired[str]
