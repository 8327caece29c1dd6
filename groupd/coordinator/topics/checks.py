"""Checks and errors that many requests about topics share."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from groupd.coordinator.core.types import CLUSTER_NAME, Operation, RequestContext, Resource
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.storage.log import LogError

DENIED: Mapping[ErrorCode, str] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
}
"""The text besides the error code, in replies that have a field for it."""


def check_cluster_access(
    context: RequestContext, operation: Operation, instead: Operation | None = None
) -> None:
    """Raises ApiError CLUSTER_AUTHORIZATION_FAILED unless `operation` or `instead` is allowed on
    the cluster."""
    if instead is not None and context.sees(instead, Resource.CLUSTER, CLUSTER_NAME):
        return
    if not context.allows(operation, Resource.CLUSTER, CLUSTER_NAME):
        raise denied(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def check_topic_access(context: RequestContext, operation: Operation, name: str) -> None:
    """Raises ApiError TOPIC_AUTHORIZATION_FAILED unless `operation` is allowed on the topic."""
    if not context.allows(operation, Resource.TOPIC, name):
        raise denied(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


class ReadRights(Struct):
    """Which topics the client of a request may read. Each right is checked once, however long the
    request waits. `known`: by name, those that were checked."""

    context: RequestContext
    known: dict[str, bool] = {}

    def may_read(self, name: str) -> bool:
        allowed = self.known.get(name)
        if allowed is None:
            allowed = self.known[name] = self.context.allows(Operation.READ, Resource.TOPIC, name)
        return allowed


def denied(code: ErrorCode) -> ApiError:
    """The error for a right that the client lacks."""
    return ApiError(code, DENIED[code])


def may_create(context: RequestContext, name: str) -> bool:
    """Whether the principal may create topics of any name, or of this name."""
    return context.sees(Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME) or context.allows(
        Operation.CREATE, Resource.TOPIC, name
    )


def refusal(error: ApiError | LogError) -> ApiError:
    """The error that the client gets for a failure; KAFKA_STORAGE_ERROR if the store has failed."""
    if isinstance(error, ApiError):
        return error
    return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))


def not_hosted() -> ApiError:
    """The error for a topic, or a partition of it, that does not exist."""
    return ApiError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
    )


def id_not_hosted() -> ApiError:
    """The error for a topic id that does not exist."""
    return ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
