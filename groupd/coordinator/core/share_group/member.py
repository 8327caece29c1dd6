"""One member of a share group: plain data, replaced as a whole."""

from __future__ import annotations

from msgspec import Struct, field

from groupd.coordinator.core.assignors.api import Assignment

NOTHING_ASSIGNED: Assignment = {}


class ShareGroupMember(Struct, frozen=True):
    """`subscribed_topic_names`: sorted, each once."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    assigned: Assignment = field(default_factory=lambda: NOTHING_ASSIGNED)
