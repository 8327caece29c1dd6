"""The list of all group types. `docs/architecture.md` (How to change things) says what a new type
needs besides its line here."""

from __future__ import annotations

from groupd.coordinator.core.classic_group.type import CLASSIC
from groupd.coordinator.core.consumer_group.type import CONSUMER
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.group_configs import GroupConfigs
from groupd.coordinator.core.group_type import GroupType
from groupd.coordinator.core.interop.migration import with_classic_members
from groupd.coordinator.core.interop.what_if import with_assignor_trial
from groupd.coordinator.core.share_group.type import SHARE

GROUP_TYPES: list[GroupType] = [
    with_assignor_trial(CLASSIC),
    with_classic_members(CONSUMER),
    SHARE,
]


def type_of(group: Group) -> GroupType:
    """The type of a group. Raises LookupError if it is not listed."""
    for group_type in GROUP_TYPES:
        if group_type.name == group.type_name:
            return group_type
    raise LookupError(f"no group type {group.type_name}")


def group_configs() -> GroupConfigs:
    """The dynamic configs of groups (resource GROUP), of all types."""
    return GroupConfigs(config for group_type in GROUP_TYPES for config in group_type.configs)
