"""The table of all served APIs, which the modules in `api/` define."""

from __future__ import annotations

from collections.abc import Mapping

from groupd.protocol.messages.cluster import ApiRange
from groupd.protocol.wire.api import (
    api_versions,
    cluster,
    configs,
    fetch,
    groups,
    heartbeats,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
    replicas,
    security,
    topics,
    transactions,
)
from groupd.protocol.wire.registry import Api

_MODULES = (
    api_versions,
    cluster,
    configs,
    fetch,
    groups,
    heartbeats,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
    replicas,
    security,
    topics,
    transactions,
)

API_BY_KEY: Mapping[int, Api] = {
    api.key: api for module in _MODULES for api in vars(module).values() if isinstance(api, Api)
}
"""Every served API by its key."""

API_BY_REQUEST: Mapping[type, Api] = {api.request_type: api for api in API_BY_KEY.values()}
"""Every served API by the class of its requests."""

API_RANGES: tuple[ApiRange, ...] = tuple(
    ApiRange(key, API_BY_KEY[key].min_version, API_BY_KEY[key].max_version)
    for key in sorted(API_BY_KEY)
)
"""The version ranges that ApiVersions advertises, ascending by key."""
