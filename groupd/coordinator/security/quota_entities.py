"""The entities that quotas are for, and the values that quotas may have
(docs/spec/security.md#5.1). Pure.

A quota belongs to an entity: a user, a client id, both together, or an address. The name None
stands for the default of its type. The quota of a client is searched for in eight entities, the
closest first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from ipaddress import ip_address

import msgspec

from groupd.coordinator.plain_text import quoted
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.quotas import EntityPart, QuotaOperation

USER, CLIENT_ID, IP = "user", "client-id", "ip"

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"

_LONG_MAX, _INT_MAX = 2.0**63, 2.0**31 - 1
OPERATIONS_MAX = 100
"""The most operations that one entry of a request may have. There are only five quotas to set."""

_SHOWN_MAX = 100
_FRACTION = 1e-6
"""A value that must be whole may be off by this much, as in Kafka."""

_OF_CLIENTS: Mapping[str, float | None] = {
    PRODUCER_BYTE_RATE: _LONG_MAX,
    CONSUMER_BYTE_RATE: _LONG_MAX,
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}
_OF_ADDRESSES: Mapping[str, float | None] = {CONNECTION_CREATION_RATE: _INT_MAX}
"""The keys of quotas, with the largest value of those that must be whole numbers; None for the
others."""

KEYS = (*_OF_CLIENTS, *_OF_ADDRESSES)
"""The keys of all quotas."""

QuotaEntity = tuple[EntityPart, ...]
"""The parts of an entity, in the order of `entity_of`."""


def entity_of(parts: Iterable[EntityPart]) -> QuotaEntity:
    """The entity with these parts, the user before the client id."""
    return tuple(sorted(parts, reverse=True))


def levels(user: str, client_id: str) -> Iterator[QuotaEntity]:
    """The entities whose quota may hold for a client, in the order in which they are searched."""
    for user_part in ((USER, user), (USER, None)):
        for client_part in ((CLIENT_ID, client_id), (CLIENT_ID, None)):
            yield (user_part, client_part)
        yield (user_part,)
    yield ((CLIENT_ID, client_id),)
    yield ((CLIENT_ID, None),)


def text_of(entity: QuotaEntity) -> str:
    """The key of the entity in the store."""
    return msgspec.json.encode(entity).decode()


def entity_from(text: str) -> QuotaEntity:
    """The entity of a key in the store. Raises ValueError."""
    return msgspec.json.decode(text, type=QuotaEntity)


def checked_entity(parts: tuple[EntityPart, ...]) -> QuotaEntity:
    """The entity with the parts that a client names. Raises ApiError INVALID_REQUEST."""
    if not parts:
        raise _invalid("An entity must have a user, a client id or an ip.")
    types: set[str] = set()
    for entity_type, name in parts:
        if entity_type not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unknown entity type {_shown(entity_type)}.")
        if entity_type in types:
            raise _invalid(f"The entity has more than one {entity_type}.")
        types.add(entity_type)
        if name == "":
            raise _invalid(f"The {entity_type} is empty; null is the default.")
    if IP not in types:
        return entity_of(parts)
    if len(parts) > 1:
        raise _invalid(
            "Invalid quota entity combination, an ip cannot be combined with a user or a client id."
        )
    return ((IP, _checked_address(parts[0][1])),)


def _checked_address(name: str | None) -> str | None:
    """The address in the one form in which addresses are compared. Host names are not looked up."""
    try:
        return None if name is None else address_of(name)
    except ValueError:
        raise _invalid(f"{_shown(name or '')} is not a valid IP address.") from None


def address_of(text: str) -> str:
    """The address in its shortest form; an IPv4 address inside IPv6 becomes IPv4. Raises
    ValueError."""
    address = ip_address(text)
    return str(getattr(address, "ipv4_mapped", None) or address)


def changed(
    entity: QuotaEntity, values: Mapping[str, float], operations: Collection[QuotaOperation]
) -> dict[str, float]:
    """The quotas of an entity after some operations. Raises ApiError INVALID_REQUEST."""
    keys = _OF_ADDRESSES if entity[0][0] == IP else _OF_CLIENTS
    if len(operations) > OPERATIONS_MAX:
        raise _invalid(f"Quotas of an entity are changed {OPERATIONS_MAX} at a time.")
    after, named = dict(values), set()
    for operation in operations:
        key, value = operation.key, operation.value
        if key in named:
            raise _invalid(f"Quota {_shown(key)} is named twice.")
        named.add(key)
        if operation.remove:
            after.pop(key, None)
            continue
        if key not in keys:
            raise _invalid(f"There is no quota {_shown(key)} for this entity.")
        after[key] = _checked_value(key, value, keys[key])
    return after


def _checked_value(key: str, value: float, most: float | None) -> float:
    if not 0 < value < float("inf"):
        raise _invalid(f"Quota {key} must be greater than 0.")
    if most is None:
        return value
    if value > most:
        raise _invalid(f"Quota {key} is too large.")
    if value % 1 > _FRACTION:
        raise _invalid(f"Quota {key} must be a whole number.")
    return value


def _shown(name: str) -> str:
    return quoted(name[:_SHOWN_MAX])


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
