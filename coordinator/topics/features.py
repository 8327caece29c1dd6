"""UpdateFeatures (57), and the features themselves.

Levels are settings that are read at the start, so an update to the level that there is succeeds and
every other one fails. Checks and texts are those of Kafka's FeatureControlManager.
"""

from __future__ import annotations

from groupd.coordinator.config import CoordinatorConfig
from groupd.coordinator.core.types import Operation, RequestContext, Resource
from groupd.coordinator.topics.names import CLUSTER_NAME
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.cluster import Feature
from groupd.protocol.messages.quorum import (
    FeatureUpdate,
    UpdateFeaturesReply,
    UpdateFeaturesRequest,
)

_UPGRADE = 1
_UPGRADE_TYPES = (1, 2, 3)


def features_of(config: CoordinatorConfig) -> tuple[Feature, ...]:
    """What ApiVersions tells."""
    return (
        Feature("group.version", config.group_version, 0, 1),
        Feature("transaction.version", config.transaction_version, 0, 2),
    )


class UpdateFeatures:
    """All updates of a request succeed, or none."""

    def __init__(self, config: CoordinatorConfig) -> None:
        self._node_id = config.node_id
        self._features = {feature.name: feature for feature in features_of(config)}

    async def handle(
        self, context: RequestContext, request: UpdateFeaturesRequest
    ) -> UpdateFeaturesReply:
        if not context.allows(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        for update in request.updates:
            reason = self._refused(update)
            if reason is not None:
                raise ApiError(
                    ErrorCode.INVALID_UPDATE_VERSION,
                    "The update failed for all features since the following feature had an "
                    f"error: Invalid update version {update.level} for feature "
                    f"{update.feature}. {reason}",
                )
        return UpdateFeaturesReply(features=tuple(update.feature for update in request.updates))

    def _refused(self, update: FeatureUpdate) -> str | None:
        if update.upgrade_type not in _UPGRADE_TYPES:
            return "The controller does not support the given upgrade type."
        if update.level < 0:
            return "A feature version cannot be less than 0."
        feature = self._features.get(update.feature)
        if feature is None:
            return f"Local controller {self._node_id} does not support this feature."
        if not feature.min_version <= update.level <= feature.max_version:
            return (
                f"Local controller {self._node_id} only supports versions "
                f"{feature.min_version}-{feature.max_version}"
            )
        if update.level < feature.level and update.upgrade_type == _UPGRADE:
            return (
                "Can't downgrade the version of this feature without setting the upgrade type to "
                "either safe or unsafe downgrade."
            )
        if update.level > feature.level and update.upgrade_type != _UPGRADE:
            return "Can't downgrade to a newer version."
        if update.level != feature.level:
            return (
                f"It is the setting groupd.{feature.name} of this broker, which is read at its "
                "start."
            )
        return None
