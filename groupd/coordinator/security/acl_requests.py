"""DescribeAcls (29), CreateAcls (30) and DeleteAcls (31), docs/spec/security.md#3.1.

A change is durable and in effect before it is answered. If the connection to a database broke, a
change that was answered with KAFKA_STORAGE_ERROR may still be in the store; the same request again
makes it certain. Requests and ACLs may be many, so all of this work stops where other work may run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from groupd.coordinator.catalogue_changes import CatalogueChanges, security_of
from groupd.coordinator.core.slices import Pace, Turn
from groupd.coordinator.core.types import (
    CLUSTER_NAME,
    DataHandler,
    Operation,
    RequestContext,
    Resource,
)
from groupd.coordinator.security.acls import check_binding, is_filter_only, matches
from groupd.coordinator.security.authorizer import (
    ACL_WEIGHT,
    KIND,
    AclChanges,
    Authorizer,
    SecurityStore,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.acls import (
    AclBinding,
    AclFilter,
    AclResult,
    CreateAclsReply,
    CreateAclsRequest,
    DeleteAclsReply,
    DeleteAclsRequest,
    DeletedAcls,
    DescribeAclsReply,
    DescribeAclsRequest,
    DescribedAcls,
)
from groupd.protocol.messages.lazily import mapped
from groupd.storage.log import LogError

CHANGES_MAX = 10_000
"""The most ACLs that one request creates or deletes, as in Kafka."""

COMPARED_MAX = 5_000_000
"""The most ACLs that the filters of one DeleteAcls are compared with, all filters together."""


T = TypeVar("T")


class AclRequests:
    """Answers the requests about ACLs. `turn()` waits for the next turn of long work. `acls_max`:
    the most ACLs in all."""

    def __init__(
        self,
        authorizer: Authorizer,
        store: SecurityStore,
        changes: CatalogueChanges,
        turn: Turn,
        acls_max: int,
    ) -> None:
        self._changes = changes
        self._authorizer = authorizer
        self._store = store
        self._turn = turn
        self._acls_max = acls_max
        changes.follow(security_of(KIND), self)

    async def load(self) -> None:
        """Reads all ACLs. Raises LogError."""
        await self._changes.make(self.read_all)

    async def read_all(self) -> None:
        """See `catalogue_changes.CatalogueCache`, also for `read`."""
        await self._authorizer.load(self._store, self._turn)

    async def read(self, names: Sequence[str]) -> None:
        await self._authorizer.read(self._store, names, self._turn)

    @property
    def handlers(self) -> Mapping[type, DataHandler]:
        return {
            DescribeAclsRequest: self.describe,
            CreateAclsRequest: self.create,
            DeleteAclsRequest: self.delete,
        }

    async def describe(
        self, context: RequestContext, request: DescribeAclsRequest
    ) -> DescribeAclsReply:
        """The ACLs that the filter of the request matches. Raises ApiError."""
        self._admit(context, Operation.DESCRIBE)
        pace = Pace()
        found: dict[tuple[int, str, int], list[AclBinding]] = {}
        for acl in await self._matching(request.filter, pace):
            if pace.due():
                await self._turn()
            found.setdefault((acl.resource_type, acl.name, acl.pattern), []).append(acl)
        described = mapped(lambda item: DescribedAcls(*item[0], item[1]), list(found.items()))
        return DescribeAclsReply(resources=described)

    async def create(self, context: RequestContext, request: CreateAclsRequest) -> CreateAclsReply:
        """Creates ACLs. Raises ApiError for the request as a whole: then nothing has changed."""
        self._admit(context, Operation.ALTER)
        if len(request.creations) > CHANGES_MAX:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"a request may create {CHANGES_MAX} ACLs, not {len(request.creations)}",
            )

        async def change() -> tuple[list[AclResult], AclChanges]:
            results, new = await self._checked(request.creations)
            return results, await self._carry_out(AclChanges(added=new))

        return CreateAclsReply(await self._make(context, change))

    async def _checked(
        self, creations: Sequence[AclBinding]
    ) -> tuple[list[AclResult], tuple[AclBinding, ...]]:
        """The results of the creations, in order, and the ACLs that do not exist yet. Raises
        ApiError for a code that makes no sense in any ACL: then no ACL is made."""
        acls, pace = self._authorizer.acls, Pace()
        room = self._acls_max - len(acls)
        results = []
        new: dict[AclBinding, None] = {}
        for acl in creations:
            if pace.due(ACL_WEIGHT):
                await self._turn()
            if is_filter_only(acl):
                raise ApiError(
                    ErrorCode.INVALID_REQUEST, "ANY and MATCH are for filters, not for ACLs"
                )
            try:
                check_binding(acl)
                if acl not in acls and acl not in new:
                    if len(new) >= room:
                        raise ApiError(
                            ErrorCode.POLICY_VIOLATION,
                            f"there are {self._acls_max} ACLs already, the most that there may be",
                        )
                    new[acl] = None
            except ApiError as error:
                results.append(AclResult(error.code, error.message))
            else:
                results.append(AclResult())
        return results, tuple(new)

    async def delete(self, context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsReply:
        """Deletes all ACLs that the filters match, or none. Raises ApiError: then nothing has
        changed."""
        self._admit(context, Operation.ALTER)
        if len(request.filters) * len(self._authorizer.acls) > COMPARED_MAX:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"{len(request.filters)} filters are too many for {len(self._authorizer.acls)} "
                "ACLs; send fewer at a time",
            )

        async def change() -> tuple[list[DeletedAcls], AclChanges]:
            results, removed = await self._for_deletion(request.filters)
            return results, await self._carry_out(AclChanges(removed=removed))

        return DeleteAclsReply(await self._make(context, change))

    async def _for_deletion(
        self, filters: Sequence[AclFilter]
    ) -> tuple[list[DeletedAcls], tuple[AclBinding, ...]]:
        """The ACLs that each filter matches, and all of them together. Raises ApiError."""
        pace = Pace()
        results = []
        removed: dict[AclBinding, None] = {}
        reported = 0
        for wanted in filters:
            found = await self._matching(wanted, pace)
            reported += len(found)
            removed.update(dict.fromkeys(found))
            if len(removed) > CHANGES_MAX or reported > 10 * CHANGES_MAX:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"a request may delete {CHANGES_MAX} ACLs, and these filters match more",
                )
            results.append(DeletedAcls(matching=found))
        return results, tuple(removed)

    def _admit(self, context: RequestContext, operation: Operation) -> None:
        """Checks the client's right first, then whether there is an authorizer. Raises ApiError."""
        if not context.allows(operation, Resource.CLUSTER, CLUSTER_NAME):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        if not self._authorizer.enabled:
            raise ApiError(ErrorCode.SECURITY_DISABLED, "authorizer.class.name is not set")

    async def _matching(self, wanted: AclFilter, pace: Pace) -> list[AclBinding]:
        found = []
        for acl in list(self._authorizer.acls):
            if pace.due():
                await self._turn()
            if matches(wanted, acl):
                found.append(acl)
        return found

    async def _carry_out(self, changes: AclChanges) -> AclChanges:
        """Raises LogError."""
        if changes.added or changes.removed:
            await self._authorizer.change(self._store, changes, self._turn)
        return changes

    async def _make(
        self, by: RequestContext, change: Callable[[], Awaitable[tuple[T, AclChanges]]]
    ) -> T:
        """Makes the change, and writes to the audit log who made it. Raises ApiError."""
        try:
            result, changes = await self._changes.make(change)
        except LogError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        audit = self._authorizer.audit
        await self._write(changes.removed, lambda acl: audit.acl_deleted(by, acl))
        await self._write(changes.added, lambda acl: audit.acl_created(by, acl))
        return result

    async def _write(self, acls: Iterable[AclBinding], line: Callable[[AclBinding], None]) -> None:
        pace = Pace()
        for acl in acls:
            if pace.due(ACL_WEIGHT):
                await self._turn()
            line(acl)
