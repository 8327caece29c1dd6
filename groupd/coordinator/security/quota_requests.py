"""DescribeClientQuotas (48) and AlterClientQuotas (49): docs/spec/security.md#5.1.

A change is durable before the reply and holds from then on, on open connections too. The entries of
a request are checked one by one. Those that are right are carried out even if others are not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import TypeVar

import msgspec

from groupd.coordinator.catalogue_changes import CatalogueChanges, security_of
from groupd.coordinator.core.slices import Turn
from groupd.coordinator.core.types import (
    CLUSTER_NAME,
    DataHandler,
    Operation,
    RequestContext,
    Resource,
)
from groupd.coordinator.security.quota_entities import (
    CLIENT_ID,
    IP,
    USER,
    QuotaEntity,
    changed,
    checked_entity,
    entity_from,
    text_of,
)
from groupd.coordinator.security.quotas import Quotas
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.quotas import (
    MATCH_ANY,
    MATCH_DEFAULT,
    MATCH_EXACT,
    AlterClientQuotasReply,
    AlterClientQuotasRequest,
    AlteredQuota,
    DescribeClientQuotasReply,
    DescribeClientQuotasRequest,
    DescribedQuota,
    QuotaAlteration,
    QuotaFilter,
)
from groupd.storage.log import Catalogue, LogCorrupt, LogError, SecurityEntry

KIND = "quota"
SLICE = 50
"""How many entries are worked on before other work may run."""

T = TypeVar("T")
QuotaValues = Mapping[str, float]
OnChange = Callable[[RequestContext, str, str, "float | None"], None]
"""Called with every change: the context of the request, the entity in words, the key, and the
value; None: removed."""

_MATCHES: Mapping[int, Callable[[str | None, str | None], bool]] = {
    MATCH_EXACT: lambda name, match: name == match,
    MATCH_DEFAULT: lambda name, match: name is None,
    MATCH_ANY: lambda name, match: True,
}


class QuotaRequests:
    """Answers the requests about quotas. `most`: how many entities may have quotas."""

    def __init__(
        self,
        store: Catalogue,
        changes: CatalogueChanges,
        quotas: Quotas,
        most: int,
        turn: Turn,
        on_change: OnChange,
    ) -> None:
        self._store = store
        self._changes = changes
        self._quotas = quotas
        self._most = most
        self._turn = turn
        self._on_change = on_change
        changes.follow(security_of(KIND), self)

    async def load(self) -> None:
        """Reads all quotas from the store. Raises LogError."""
        await self._changes.make(self.read_all)

    async def read_all(self) -> None:
        """See `catalogue_changes.CatalogueCache`, also for `read`."""
        found = await self._quotas_of(await self._store.security_entries(KIND))
        gone = self._quotas.entries.keys() - found.keys()
        self._quotas.change([*found.items(), *((entity, {}) for entity in gone)])

    async def read(self, names: Sequence[str]) -> None:
        found = await self._quotas_of(await self._store.security_entries_of(KIND, names))
        entities = [entity_from(key) for key in names]
        self._quotas.change([(entity, found.get(entity, {})) for entity in entities])

    async def _quotas_of(
        self, entries: Iterable[tuple[str, str]]
    ) -> dict[QuotaEntity, QuotaValues]:
        """The quotas by entity from entries of the store. Raises LogCorrupt."""
        found: dict[QuotaEntity, QuotaValues] = {}
        async for key, value in self._in_turns(entries):
            try:
                found[entity_from(key)] = msgspec.json.decode(value, type=dict[str, float])
            except ValueError as error:
                raise LogCorrupt(f"quota {key}: {error}") from error
        return found

    @property
    def handlers(self) -> Mapping[type, DataHandler]:
        return {DescribeClientQuotasRequest: self.describe, AlterClientQuotasRequest: self.alter}

    # DescribeClientQuotas -----------------------------------------------------------------

    async def describe(
        self, context: RequestContext, request: DescribeClientQuotasRequest
    ) -> DescribeClientQuotasReply:
        """The quotas that the filters match. Raises ApiError for filters that make no sense."""
        _check(context, Operation.DESCRIBE_CONFIGS)
        _check_filters(request.components)
        if request.strict and not request.components:
            return DescribeClientQuotasReply(entries=())
        found = []
        async for entity, values in self._in_turns(list(self._quotas.entries.items())):
            if _matches(entity, request):
                found.append(DescribedQuota(_shown(entity), tuple(sorted(values.items()))))
        return DescribeClientQuotasReply(entries=found)

    # AlterClientQuotas --------------------------------------------------------------------

    async def alter(
        self, context: RequestContext, request: AlterClientQuotasRequest
    ) -> AlterClientQuotasReply:
        """Changes quotas. Raises ApiError, also when the store fails: then nothing has changed."""
        _check(context, Operation.ALTER_CONFIGS)
        changed: list[tuple[QuotaEntity, QuotaValues, QuotaValues]] = []

        async def change() -> list[AlteredQuota]:
            planned, results = await self._plan(request.entries)
            if not request.validate_only:
                changed[:] = await self._carry_out(planned)
            return results

        try:
            results = await self._changes.make(change)
        except LogError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        async for entity, old, new in self._in_turns(changed):
            tell = partial(self._on_change, context, _in_words(entity))
            for key in sorted({*old, *new}):
                if old.get(key) != new.get(key):
                    tell(key, new.get(key))
        return AlterClientQuotasReply(results)

    async def _plan(
        self, entries: Iterable[QuotaAlteration]
    ) -> tuple[dict[QuotaEntity, QuotaValues], list[AlteredQuota]]:
        """The quotas that the entities are to have, and the results by entry."""
        planned: dict[QuotaEntity, QuotaValues] = {}
        results = []
        room = self._most - len(self._quotas.entries)
        async for entry in self._in_turns(entries):
            try:
                entity = checked_entity(entry.entity)
                if entity in planned:
                    raise ApiError(ErrorCode.INVALID_REQUEST, "The entity is named twice.")
                before = self._quotas.entries.get(entity, {})
                after = changed(entity, before, entry.operations)
                room += bool(before) - bool(after)
                if room < 0 and not before:
                    room += 1
                    message = f"There are {self._most} entities with quotas already."
                    raise ApiError(ErrorCode.POLICY_VIOLATION, message)
                planned[entity] = after
            except ApiError as error:
                results.append(AlteredQuota(_shown(entry.entity), error.code, error.message))
            else:
                results.append(AlteredQuota(_shown(entry.entity)))
        return planned, results

    async def _carry_out(
        self, planned: Mapping[QuotaEntity, QuotaValues]
    ) -> list[tuple[QuotaEntity, QuotaValues, QuotaValues]]:
        """Changes the quotas that are different. Returns for each its entity and the quotas before
        and after. Raises LogError."""
        known = self._quotas.entries
        different = [
            (entity, before, after)
            for entity, after in planned.items()
            if after != (before := known.get(entity, {}))
        ]
        entries = []
        async for entity, _, after in self._in_turns(different):
            value = _text(after) if after else None
            entries.append(SecurityEntry(KIND, text_of(entity), value))
        if entries:
            await self._store.change_security(entries)
            self._quotas.change([(entity, after) for entity, _, after in different])
        return different

    async def _in_turns(self, items: Iterable[T]) -> AsyncIterator[T]:
        """The items, with stops in between where other work may run."""
        for number, item in enumerate(items, 1):
            if number % SLICE == 0:
                await self._turn()
            yield item


def _check(context: RequestContext, operation: Operation) -> None:
    if not context.allows(operation, Resource.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _check_filters(components: Iterable[QuotaFilter]) -> None:
    """Raises ApiError INVALID_REQUEST, UNSUPPORTED_VERSION."""
    types: set[str] = set()
    for component in components:
        entity_type, named = component.entity_type, component.match is not None
        if not entity_type:
            raise ApiError(ErrorCode.INVALID_REQUEST, "An entity type is empty.")
        if entity_type in types:
            raise ApiError(ErrorCode.INVALID_REQUEST, "An entity type is named twice.")
        if entity_type not in (USER, CLIENT_ID, IP):
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "An entity type is unknown.")
        if component.match_type not in _MATCHES:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"No match type {component.match_type}.")
        if named != (component.match_type == MATCH_EXACT):
            message = "Only an exact match has a name, and it must have one."
            raise ApiError(ErrorCode.INVALID_REQUEST, message)
        types.add(entity_type)
    if IP in types and len(types) > 1:
        message = (
            "Invalid entity filter component combination: an ip cannot be combined with a user or "
            "a client id."
        )
        raise ApiError(ErrorCode.INVALID_REQUEST, message)


def _matches(entity: QuotaEntity, request: DescribeClientQuotasRequest) -> bool:
    if request.strict and len(entity) != len(request.components):
        return False
    names = dict(entity)
    return all(
        component.entity_type in names
        and _MATCHES[component.match_type](names[component.entity_type], component.match)
        for component in request.components
    )


def _shown(entity: QuotaEntity) -> QuotaEntity:
    """The parts of an entity in the order of replies: in Kafka the client id stands before the
    user."""
    return tuple(sorted(entity, key=itemgetter(0)))


def _text(values: QuotaValues) -> str:
    return msgspec.json.encode(dict(sorted(values.items()))).decode()


def _in_words(entity: QuotaEntity) -> str:
    """The entity in words, such as `user alice, client-id (default)`."""
    return ", ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in entity)
