"""The table of all served APIs, which the modules in `api/` define."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules

from groupd.protocol.messages.cluster import ApiRange
from groupd.protocol.wire import api
from groupd.protocol.wire.registry import Api

_MODULES = [import_module(f"{api.__name__}.{module.name}") for module in iter_modules(api.__path__)]

API_BY_KEY: Mapping[int, Api] = {
    found.key: found
    for module in _MODULES
    for found in vars(module).values()
    if isinstance(found, Api)
}
"""Every served API by its key."""

API_BY_REQUEST: Mapping[type, Api] = {found.request_type: found for found in API_BY_KEY.values()}
"""Every served API by the class of its requests."""

API_RANGES: tuple[ApiRange, ...] = tuple(
    ApiRange(key, API_BY_KEY[key].min_version, API_BY_KEY[key].max_version)
    for key in sorted(API_BY_KEY)
)
"""The version ranges that ApiVersions advertises, ascending by key."""
