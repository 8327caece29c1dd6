"""Checks and refusals that many requests about topics share."""

from __future__ import annotations

from groupd.coordinator.core.types import CLUSTER_NAME, Operation, RequestContext, Resource
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.storage.log import LogError

DENIED = "Authorization failed."


def check_cluster_access(
    context: RequestContext, operation: Operation, instead: Operation | None = None
) -> None:
    """Raises ApiError CLUSTER_AUTHORIZATION_FAILED unless `operation` is allowed, or `instead`."""
    if instead is not None and context.sees(instead, Resource.CLUSTER, CLUSTER_NAME):
        return
    if not context.allows(operation, Resource.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def check_topic_access(
    context: RequestContext, operation: Operation, name: str, message: str | None = None
) -> None:
    """Raises ApiError TOPIC_AUTHORIZATION_FAILED with `message`."""
    if not context.allows(operation, Resource.TOPIC, name):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, message)


def may_create(context: RequestContext, name: str) -> bool:
    """Whether the principal may create any topic, or this one."""
    return context.sees(Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME) or context.allows(
        Operation.CREATE, Resource.TOPIC, name
    )


def refusal(error: ApiError | LogError) -> ApiError:
    """The error that a client gets: for a failure of the store KAFKA_STORAGE_ERROR."""
    if isinstance(error, ApiError):
        return error
    return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))


def not_hosted() -> ApiError:
    """There is no such topic, or no such partition of it."""
    return ApiError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
    )


def id_not_hosted() -> ApiError:
    """There is no topic with this id."""
    return ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
