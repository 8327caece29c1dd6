"""DescribeQuorum (55) and UpdateFeatures (57): the nodes as the controllers of their cluster."""

from __future__ import annotations

from collections.abc import Generator
from operator import attrgetter
from typing import Any

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.types import Operation, RequestContext
from groupd.coordinator.topics.checks import check_cluster_access, not_hosted
from groupd.coordinator.topics.data_plane import DataPlane
from groupd.coordinator.topics.layout import features_of
from groupd.coordinator.topics.topic import CLUSTER_METADATA_TOPIC
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.messages.quorum import (
    DescribeQuorumReply,
    DescribeQuorumRequest,
    FeatureUpdate,
    QuorumPartition,
    QuorumReplica,
    UpdateFeaturesReply,
    UpdateFeaturesRequest,
)

_DIRECTORY_ID = b"groupd-directory"  # any 16 bytes that are the same on every node
_CONTROLLER_EPOCH = 1
_UPGRADE = 1
_UPGRADE_TYPES = (1, 2, 3)


async def describe_quorum(
    plane: DataPlane, context: RequestContext, request: DescribeQuorumRequest
) -> DescribeQuorumReply:
    """Handles DescribeQuorum. There is no metadata log; the version of the topics stands for its
    end offset. Every node that can do what a controller does is a voter. The voter with the lowest
    id is shown as the leader, so that all nodes answer the same. The store is the one directory of
    all voters."""
    check_cluster_access(context, Operation.DESCRIBE)
    if request.topics != ((CLUSTER_METADATA_TOPIC, (0,)),):
        return DescribeQuorumReply(topics=await _unknown(plane, request))
    voters, end, now_ms = (
        plane.layout.controllers,
        plane.catalogue.image.version,
        plane.now().wall_ms,
    )
    partition = QuorumPartition(
        partition=0,
        leader_id=voters[0],
        leader_epoch=_CONTROLLER_EPOCH,
        high_watermark=end,
        voters=tuple([QuorumReplica(one, _DIRECTORY_ID, end, now_ms, now_ms) for one in voters]),
    )
    return DescribeQuorumReply(
        topics=((CLUSTER_METADATA_TOPIC, (partition,)),),
        nodes=tuple(
            node for node in plane.layout.nodes_on(context.listener) if node.node_id in voters
        ),
    )


async def _unknown(
    plane: DataPlane, request: DescribeQuorumRequest
) -> tuple[tuple[str, tuple[QuorumPartition, ...]], ...]:
    error, pace = not_hosted(), plane.work.pace()
    topics = []
    for name, asked in request.topics:
        if pace.due():
            await pace.turn()
        found = []
        for partition in asked:
            if pace.due():
                await pace.turn()
            found.append(QuorumPartition(partition, error.code, error.message))
        topics.append((name, tuple(found)))
    return tuple(topics)


Answering = Generator[int, None, Any]
"""Handles a request in steps: yields how many items the next step handles, and returns the reply.
Raises ApiError."""


def update_features(plane: DataPlane, request: UpdateFeaturesRequest) -> Answering:
    """Handles UpdateFeatures: all updates of a request succeed, or none. Levels are settings that
    are read at the start, so only an update to the present level succeeds. Checks and texts are
    those of Kafka's FeatureControlManager."""
    for update in request.updates:
        yield 1
        reason = _why_not(plane.config, update)
        if reason is not None:
            raise ApiError(
                ErrorCode.INVALID_UPDATE_VERSION,
                "The update failed for all features since the following feature had an error: "
                f"Invalid update version {update.level} for feature {update.feature}. {reason}",
            )
    return UpdateFeaturesReply(features=mapped(attrgetter("feature"), request.updates))


def _why_not(config: CoordinatorConfig, update: FeatureUpdate) -> str | None:
    controller = f"Local controller {config.node_id}"
    if update.upgrade_type not in _UPGRADE_TYPES:
        return "The controller does not support the given upgrade type."
    if update.level < 0:
        return "A feature version cannot be less than 0."
    feature = next((one for one in features_of(config) if one.name == update.feature), None)
    if feature is None:
        return f"{controller} does not support this feature."
    if not feature.min_version <= update.level <= feature.max_version:
        return f"{controller} only supports versions {feature.min_version}-{feature.max_version}"
    if update.level < feature.level and update.upgrade_type == _UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade."
        )
    if update.level > feature.level and update.upgrade_type != _UPGRADE:
        return "Can't downgrade to a newer version."
    if update.level != feature.level:
        return (
            f"It is the setting groupd.{feature.name} of this broker, which is read at its start."
        )
    return None
