"""ShareGroupDescribe of one group, and which partitions of a group have offsets
(docs/spec/share-group.md#2.5).

Reads the current state. `runtime` holds the reply back until the group's pending records are
durable, so that no client sees what may still be lost.
"""

from __future__ import annotations

from groupd.coordinator.core.described import may_describe, named_partitions
from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.coordinator.core.shard_requests import DescribeShareGroup, ListSharePartitions
from groupd.coordinator.core.share_group.group import ShareGroup
from groupd.coordinator.core.share_group.member import ShareGroupMember
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant, Outcome, RequestContext, Resource
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.groups import OPERATIONS_NOT_ASKED
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.messages.share_group import DescribedShareGroup, DescribedShareMember


def handle(
    state: ShardState, context: RequestContext, request: DescribeShareGroup, now: Instant
) -> Outcome:
    group = _described(state, context, request)
    return Outcome(replies=[(context.token, group)], gate=request.group_id)


def _described(
    state: ShardState, context: RequestContext, request: DescribeShareGroup
) -> DescribedShareGroup:
    """Describes one group. Errors are part of the result, because each group of the reply has its
    own. Access to the group was checked before the shard was asked."""
    group_id, image = request.group_id, state.image
    if not group_id:
        return DescribedShareGroup(group_id, ErrorCode.INVALID_GROUP_ID)
    group = state.groups.get(group_id)
    if not isinstance(group, ShareGroup):
        known = f"Group {group_id} is not a share group."
        missing = f"Group {group_id} not found."
        return DescribedShareGroup(
            group_id, ErrorCode.GROUP_ID_NOT_FOUND, missing if group is None else known
        )
    members = [member for _, member in sorted(group.members.items())]
    shown = {topic_id for member in members for topic_id in member.assigned}
    if context.access.restricted and not may_describe(context, shown, image):
        return DescribedShareGroup(
            group_id,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "The group has partitions of topics that the caller may not describe.",
        )
    return DescribedShareGroup(
        group_id,
        state=group.state_name(),
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=state.share_assignor.name,
        members=mapped(lambda member: _member(member, image), members),
        authorized_operations=(
            context.authorized_operations(Resource.GROUP, group_id)
            if request.include_authorized_operations
            else OPERATIONS_NOT_ASKED
        ),
    )


def _member(member: ShareGroupMember, image: MetadataImage) -> DescribedShareMember:
    return DescribedShareMember(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.subscribed_topic_names,
        assignment=named_partitions(member.assigned, image),
    )


def list_partitions(
    state: ShardState, context: RequestContext, request: ListSharePartitions, now: Instant
) -> Outcome:
    """The initialized partitions of a group by topic id; none if there is no such share group."""
    group = state.groups.get(request.group_id)
    partitions = group.initialized if isinstance(group, ShareGroup) else {}
    return Outcome(replies=[(context.token, partitions)], gate=request.group_id)
