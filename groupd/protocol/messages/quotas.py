"""Client quotas: DescribeClientQuotas (48) and AlterClientQuotas (49)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from groupd.protocol.errors import ErrorCode

EntityPart = tuple[str, str | None]
"""(entity type, name). The name None means the default of that type."""

MATCH_EXACT = 0
MATCH_DEFAULT = 1
MATCH_ANY = 2


class QuotaFilter(Struct, frozen=True):
    """Selects entities that have a part of this type. `match_type` says which: the part with the
    name `match` (`MATCH_EXACT`), the default (`MATCH_DEFAULT`), or any (`MATCH_ANY`)."""

    entity_type: str
    match_type: int
    match: str | None = None


class DescribeClientQuotasRequest(Struct, frozen=True):
    """`strict`: entities that also have parts of other types are left out."""

    components: tuple[QuotaFilter, ...] = ()
    strict: bool = False


class DescribedQuota(Struct, frozen=True):
    """`values`: the (key, bound) pairs of one entity."""

    entity: tuple[EntityPart, ...]
    values: tuple[tuple[str, float], ...]


class DescribeClientQuotasReply(Struct, frozen=True):
    """`entries`: None if the reply has an error."""

    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    entries: Sequence[DescribedQuota] | None = None


class QuotaOperation(Struct, frozen=True):
    """Sets `key` to `value`, or removes it."""

    key: str
    value: float = 0.0
    remove: bool = False


class QuotaAlteration(Struct, frozen=True):
    entity: tuple[EntityPart, ...]
    operations: tuple[QuotaOperation, ...]


class AlterClientQuotasRequest(Struct, frozen=True):
    entries: tuple[QuotaAlteration, ...]
    validate_only: bool = False


class AlteredQuota(Struct, frozen=True):
    entity: tuple[EntityPart, ...]
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class AlterClientQuotasReply(Struct, frozen=True):
    entries: Sequence[AlteredQuota] = ()
