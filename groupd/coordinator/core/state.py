"""Everything the handlers of one shard share: groups, metadata, deadlines, configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.assignors.api import PartitionAssignor
from groupd.coordinator.core.assignors.share import SimpleAssignor
from groupd.coordinator.core.deadlines import Deadlines
from groupd.coordinator.core.group import Group, OffsetOwner
from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.protocol.errors import ApiError, ErrorCode


def _no_simple_group(group_id: str) -> OffsetOwner:
    raise LookupError("no group type has simple groups")


class ShardState(Struct):
    """`groups` is hard state. `group_configs`: dynamic overrides (resource GROUP) by group id and
    Kafka name. `new_id()` returns a new UUID string (36 characters). `soft`: what group types keep
    beside their groups, by the type's name (`GroupType.soft_state`). `simple_group`: makes the
    group when offsets are committed for an unknown group id. `groups_in_all()`: how many groups all
    shards of the process have. `being_deleted`: groups that are deleted in pieces. `busy`: groups
    about which an administrator's call to another coordinator is under way. Both are
    soft state: if the process ends meanwhile, the group stays with the rest of its offsets, and the
    administrator is told to try again.
    `share_assignor`: the one assignor of all share groups."""

    config: CoordinatorConfig
    new_id: Callable[[], str]
    assignors: Mapping[str, PartitionAssignor]
    image: MetadataImage = field(default_factory=MetadataImage)
    groups: dict[str, Group] = field(default_factory=dict)
    group_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    deadlines: Deadlines = field(default_factory=Deadlines)
    soft: dict[str, Any] = field(default_factory=dict)
    simple_group: Callable[[str], OffsetOwner] = _no_simple_group
    groups_in_all: Callable[[], int] = lambda: 0
    being_deleted: set[str] = field(default_factory=set)
    busy: set[str] = field(default_factory=set)
    share_assignor: PartitionAssignor = field(default_factory=SimpleAssignor)

    def check_group_limit(self) -> None:
        """Raises GROUP_MAX_SIZE_REACHED if there may be no more groups."""
        most = self.config.max_groups
        if self.groups_in_all() >= most:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The limit of {most} groups (groupd.max.groups) is reached.",
            )
