"""DescribeUserScramCredentials (50) and AlterUserScramCredentials (51): KIP-554,
`docs/spec/security.md#6`."""

from __future__ import annotations

from collections.abc import Mapping

from groupd.coordinator.core.slices import Pace, Turn
from groupd.coordinator.core.types import (
    CLUSTER_NAME,
    DataHandler,
    Operation,
    RequestContext,
    Resource,
)
from groupd.coordinator.security.audit import Audit
from groupd.coordinator.security.scram_credentials import (
    MECHANISM_BY_CODE,
    MECHANISMS,
    NO_NAME,
    ScramCredential,
    ScramMechanism,
    credential,
    why_not,
)
from groupd.coordinator.security.users import USER_WEIGHT, Users
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.users import (
    AlteredUser,
    AlterUserScramCredentialsReply,
    AlterUserScramCredentialsRequest,
    DescribedUser,
    DescribeUserScramCredentialsReply,
    DescribeUserScramCredentialsRequest,
    ScramDeletion,
    ScramUpsertion,
)
from groupd.storage.log import LogError

_KEYS_WEIGHT = 16
"""The weight of making the keys of a credential, in items of `Pace`: some hashing, about 30 us."""

# These are Kafka's words, which its tools and tests look for.
_DESCRIBED_TWICE = "Cannot describe SCRAM credentials for the same user twice in a single request: "
_NO_SUCH_USER = "Attempt to describe a user credential that does not exist: "

ScramChange = ScramDeletion | ScramUpsertion


class UserRequests:
    """Answers the requests about SCRAM users. `turn()` waits for the next turn of long work."""

    def __init__(self, users: Users, audit: Audit, turn: Turn) -> None:
        self._users = users
        self._audit = audit
        self._turn = turn

    @property
    def handlers(self) -> Mapping[type, DataHandler]:
        return {
            DescribeUserScramCredentialsRequest: self.describe,
            AlterUserScramCredentialsRequest: self.alter,
        }

    # Describe -----------------------------------------------------------------------------

    async def describe(
        self, context: RequestContext, request: DescribeUserScramCredentialsRequest
    ) -> DescribeUserScramCredentialsReply:
        """Describes each user once. Raises ApiError."""
        _check_cluster_right(context, Operation.DESCRIBE)
        pace = Pace()
        twice = set()
        asked: dict[str, None] = {}
        for user in request.users or self._users.names():
            if pace.due(USER_WEIGHT):
                await self._turn()
            if user in asked:
                twice.add(user)
            asked[user] = None
        results = []
        for user in asked:
            if pace.due(USER_WEIGHT):
                await self._turn()
            results.append(self._described(user, user in twice))
        return DescribeUserScramCredentialsReply(results=results)

    def _described(self, user: str, twice: bool) -> DescribedUser:
        if twice:
            return DescribedUser(user, ErrorCode.DUPLICATE_RESOURCE, _DESCRIBED_TWICE + user)
        credentials = self._users.credentials(user)
        if not credentials:
            return DescribedUser(user, ErrorCode.RESOURCE_NOT_FOUND, _NO_SUCH_USER + user)
        # They are in the order of the codes on the wire.
        kept = [
            (one.code, credentials[name]) for name, one in MECHANISMS.items() if name in credentials
        ]
        return DescribedUser(user, credentials=tuple((code, one.iterations) for code, one in kept))

    # Alter --------------------------------------------------------------------------------

    async def alter(
        self, context: RequestContext, request: AlterUserScramCredentialsRequest
    ) -> AlterUserScramCredentialsReply:
        """Answers for each user once, in the given order. An error of one user does not stop the
        others, whose changes become durable together. Raises ApiError."""
        _check_cluster_right(context, Operation.ALTER)
        pace = Pace()

        async def make() -> tuple[dict[str, ScramChange], dict[str, AlteredUser]]:
            wanted, results = await self._checked(request, pace)
            await self._make(wanted, pace)
            return wanted, results

        try:
            wanted, results = await self._users.changing(make)
        except LogError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        for change in wanted.values():
            if pace.due(USER_WEIGHT):
                await self._turn()
            deleted = isinstance(change, ScramDeletion)
            self._audit.user_changed(context, change.user, _mechanism(change).name, deleted=deleted)
        return AlterUserScramCredentialsReply(tuple(results.values()))

    async def _checked(
        self, request: AlterUserScramCredentialsRequest, pace: Pace
    ) -> tuple[dict[str, ScramChange], dict[str, AlteredUser]]:
        """The changes to make, and the results; both by user. The first error of a user counts."""
        wanted: dict[str, ScramChange] = {}
        results: dict[str, AlteredUser] = {}
        new: set[str] = set()
        changes: tuple[ScramChange, ...] = (*request.deletions, *request.upsertions)
        for change in changes:
            if pace.due(USER_WEIGHT):
                await self._turn()
            user = change.user
            if user in results and user not in wanted:
                continue
            results[user] = AlteredUser(user)
            try:
                if wanted.pop(user, None) is not None:
                    new.discard(user)
                    raise _twice()
                self._check(change)
                if not self._users.credentials(user):
                    self._check_room(new)
                    new.add(user)
                wanted[user] = change
            except ApiError as error:
                results[user] = AlteredUser(user, error.code, error.message)
        return wanted, results

    def _check(self, change: ScramChange) -> None:
        """Raises ApiError."""
        if not change.user:
            raise _unacceptable(NO_NAME)
        mechanism = _mechanism(change)
        if isinstance(change, ScramUpsertion):
            reason = why_not(
                change.user, mechanism, change.iterations, change.salt, change.salted_password
            )
            if reason is not None:
                raise _unacceptable(reason)
        elif self._users.credential(change.user, mechanism.name) is None:
            raise ApiError(
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            )

    def _check_room(self, new: set[str]) -> None:
        """Raises ApiError if there may not be one more user beside those of `new`."""
        if len(new) >= self._users.room:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                "There are as many users as there may be.",
            )

    async def _make(self, wanted: Mapping[str, ScramChange], pace: Pace) -> None:
        """Makes the changes. Raises LogError; then it is not known whether the store has them."""
        changes: dict[tuple[str, str], ScramCredential | None] = {}
        for user, change in wanted.items():
            if pace.due(_KEYS_WEIGHT):
                await self._turn()
            mechanism = _mechanism(change)
            new = None
            if isinstance(change, ScramUpsertion):
                new = credential(mechanism, change.salted_password, change.salt, change.iterations)
            changes[user, mechanism.name] = new
        if changes:
            await self._users.change(changes)


def _mechanism(change: ScramChange) -> ScramMechanism:
    """The mechanism with a code of the wire. Raises ApiError."""
    mechanism = MECHANISM_BY_CODE.get(change.mechanism)
    if mechanism is None:
        raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return mechanism


def _check_cluster_right(context: RequestContext, operation: Operation) -> None:
    """Raises ApiError."""
    if not context.allows(operation, Resource.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _twice() -> ApiError:
    return ApiError(
        ErrorCode.DUPLICATE_RESOURCE,
        "A user credential cannot be altered twice in the same request",
    )


def _unacceptable(why: str) -> ApiError:
    return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, why)
