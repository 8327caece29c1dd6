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
    # Consumer and share groups only
    rack_id: NotRequired[str | None]
    member_epoch: NotRequired[int]
    previous_member_epoch: NotRequired[int]
    target: NotRequired[dict[str, list[int]]]
    # Consumer groups only
    state: NotRequired[str]
    subscribed_topic_regex: NotRequired[str | None]
    server_assignor: NotRequired[str | None]
    pending_revocation: NotRequired[dict[str, list[int]]]
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
    # Consumer and share groups only
    group_epoch: NotRequired[int]
    assignment_epoch: NotRequired[int]
    assignment_timestamp_ms: NotRequired[int]
    blocked: NotRequired[list[Blocked]]
    # Consumer groups only
    resolved_regexes: NotRequired[dict[str, list[str]]]
    # Share groups only: the partitions by topic, and topics
    initializing: NotRequired[dict[str, list[int]]]
    initialized: NotRequired[dict[str, list[int]]]
    deleting: NotRequired[list[str]]
    # Classic groups only
    generation: NotRequired[int]
    protocol_type: NotRequired[str]
    protocol_name: NotRequired[str | None]
    leader: NotRequired[str | None]
    pending_members: NotRequired[list[str]]
    waiting_for: NotRequired[list[str]]


class ShareRecord(TypedDict):
    """A record of a share group. `state`: "available", "acquired", "acknowledged", "archiving" or
    "archived". `member_id`: who holds it, or has held it last. `lock_left_ms`: None if nobody holds
    it. `why`: "released", "expired", "accepted", "rejected", "delivery limit", "aborted", "log
    start" or "the leader began anew"; None while it is acquired, and if the harness has not seen
    how it came to its state."""

    topic: str
    partition: int
    offset: int
    state: str
    delivery_count: int
    member_id: str | None
    lock_left_ms: int | None
    why: str | None


class RecipeResult(TypedDict):
    """What a recipe did. `faults`: the numbers of the faults that it added; `members`: the members
    that it hit; `expired`: the partitions whose offsets expired, as [topic, partition]; `code`: the
    error; `released`: how many records of a share group are available again."""

    faults: list[int]
    members: NotRequired[list[str]]
    expired: NotRequired[list[tuple[str, int]]]
    code: NotRequired[str]
    released: NotRequired[int]
