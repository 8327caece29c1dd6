"""Users over the wire (`docs/spec/security.md#6`), on every answer of the store."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Sequence

import pytest

from groupd.coordinator.catalogue_changes import CatalogueChanges
from groupd.coordinator.core.types import Operation, RequestContext, Resource
from groupd.coordinator.security.audit import Audit
from groupd.coordinator.security.scram_credentials import (
    MECHANISMS,
    NAME_BYTES_MAX,
    SALT_BYTES_MAX,
    credential,
)
from groupd.coordinator.security.user_requests import UserRequests
from groupd.coordinator.security.users import Users
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.secret import Secret
from groupd.protocol.messages.users import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramDeletion,
    ScramUpsertion,
)
from groupd.storage.log import LogCorrupt, LogUnavailable, SecurityEntry
from groupd.storage.memory import MemoryStore
from tests.support.access import ByRule

SHA_256, SHA_512 = 1, 2
SALTED = {SHA_256: Secret(b"p" * 32), SHA_512: Secret(b"q" * 64)}

NONE = ErrorCode.NONE
UNACCEPTABLE = ErrorCode.UNACCEPTABLE_CREDENTIAL
DUPLICATE = ErrorCode.DUPLICATE_RESOURCE
NOT_FOUND = ErrorCode.RESOURCE_NOT_FOUND
UNSUPPORTED = ErrorCode.UNSUPPORTED_SASL_MECHANISM


class Store(MemoryStore):
    """A store whose writes fail while `broken`: after they are done, or before."""

    broken = ""

    async def change_security(self, changes: Sequence[SecurityEntry]) -> None:
        if self.broken != "before":
            await super().change_security(changes)
        if self.broken:
            raise LogUnavailable("the disk is gone")


class Changes(Audit):
    """Remembers what was changed."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, str, bool]] = []

    def user_changed(self, by: RequestContext, user: str, mechanism: str, *, deleted: bool) -> None:
        self.seen.append((user, mechanism, deleted))


class Bench:
    def __init__(self, store: Store | None = None, most: int = 10) -> None:
        self.store = store or Store()
        self.turns = 0
        self.audit = Changes()
        self.users = Users(self.store, CatalogueChanges(), most, self._turn)
        self.requests = UserRequests(self.users, self.audit, self._turn)
        self.context = RequestContext(0, 0)

    async def start(self) -> Bench:
        await self.store.start()
        await self.users.load()
        return self

    async def _turn(self) -> None:
        self.turns += 1
        await asyncio.sleep(0)

    async def alter(self, *changes: ScramDeletion | ScramUpsertion) -> dict[str, ErrorCode]:
        request = AlterUserScramCredentialsRequest(
            tuple(one for one in changes if isinstance(one, ScramDeletion)),
            tuple(one for one in changes if isinstance(one, ScramUpsertion)),
        )
        results = (await self.requests.alter(self.context, request)).results
        answers = {one.user: one.error for one in results}
        assert len(answers) == len(results)
        assert all((one.error_message is None) == (one.error == NONE) for one in results)
        return answers

    async def describe(
        self, *users: str
    ) -> list[tuple[str, ErrorCode, tuple[tuple[int, int], ...]]]:
        request = DescribeUserScramCredentialsRequest(users)
        results = (await self.requests.describe(self.context, request)).results
        return [(one.user, one.error, one.credentials) for one in results]


@pytest.fixture
async def bench() -> Bench:
    return await Bench().start()


def put(user: str, mechanism: int = SHA_256, iterations: int = 4096, **fields) -> ScramUpsertion:
    salted = fields.pop("salted", SALTED.get(mechanism, SALTED[SHA_256]))
    salt = fields.pop("salt", Secret(b"salt"))
    return ScramUpsertion(user, mechanism, iterations, salt, salted)


def drop(user: str, mechanism: int = SHA_256) -> ScramDeletion:
    return ScramDeletion(user, mechanism)


async def test_the_iterations_of_the_users_there_are(bench: Bench) -> None:
    def shown(users: Users) -> list[int]:
        return [users.some_iterations("SCRAM-SHA-256", tenth / 10) for tenth in range(10)]

    assert shown(bench.users) == [4096] * 10, "nobody is there"
    await bench.alter(put("alice", iterations=8192), put("bob", SHA_512, 5000))
    assert shown(bench.users) == [8192] * 10
    await bench.alter(put("carol", iterations=4096))
    assert shown(bench.users) == [4096] * 5 + [8192] * 5
    await bench.alter(put("alice", iterations=16384))
    assert shown(bench.users) == [4096] * 5 + [16384] * 5
    again = await Bench(bench.store).start()
    assert shown(again.users) == shown(bench.users)
    await bench.alter(drop("carol"))
    assert shown(bench.users) == [16384] * 10


async def test_made_changed_and_deleted(bench: Bench) -> None:
    assert await bench.alter(put("alice"), put("bob", SHA_512, 8192)) == {
        "alice": NONE,
        "bob": NONE,
    }
    assert await bench.describe() == [
        ("alice", NONE, ((SHA_256, 4096),)),
        ("bob", NONE, ((SHA_512, 8192),)),
    ]
    kept = bench.users.credential("alice", "SCRAM-SHA-256")
    assert kept == credential(MECHANISMS["SCRAM-SHA-256"], SALTED[SHA_256], b"salt", 4096)
    assert bench.users.credential("alice", "SCRAM-SHA-512") is None
    assert await bench.alter(put("alice", SHA_512)) == {"alice": NONE}
    assert await bench.alter(put("alice", iterations=5000)) == {"alice": NONE}
    assert await bench.describe("alice") == [("alice", NONE, ((SHA_256, 5000), (SHA_512, 4096)))]
    assert await bench.alter(drop("alice"), drop("bob", SHA_512)) == {"alice": NONE, "bob": NONE}
    assert await bench.describe() == [("alice", NONE, ((SHA_512, 4096),))]
    assert bench.audit.seen[-2:] == [
        ("alice", "SCRAM-SHA-256", True),
        ("bob", "SCRAM-SHA-512", True),
    ]
    assert bench.audit.seen[0] == ("alice", "SCRAM-SHA-256", False)


async def test_they_are_there_after_a_restart(bench: Bench) -> None:
    await bench.alter(put("alice"), put("a:b=c,d\n", SHA_512))
    again = await Bench(bench.store).start()
    assert await again.describe() == await bench.describe()
    for user, mechanism in (("alice", "SCRAM-SHA-256"), ("a:b=c,d\n", "SCRAM-SHA-512")):
        assert again.users.credential(user, mechanism) == bench.users.credential(user, mechanism)
        assert again.users.credential(user, mechanism) is not None


async def test_the_salted_password_is_nowhere(bench: Bench) -> None:
    """SE-95: whoever has it can log in."""
    salted = Secret(hashlib.sha256(b"secret").digest())
    await bench.alter(put("alice", salted=salted))
    (entry,) = await bench.store.security_entries("scram")
    kept = bench.users.credential("alice", "SCRAM-SHA-256")
    assert kept is not None
    for text in (repr(entry), repr(kept), str(kept)):
        assert salted.hex() not in text
        assert base64.b64encode(salted).decode() not in text
    assert salted not in (kept.salt, kept.stored_key, kept.server_key)


REFUSED = {
    "4095 iterations": (put("x", iterations=4095), UNACCEPTABLE),
    "16385 iterations": (put("x", iterations=16385), UNACCEPTABLE),
    "16384 iterations": (put("x", iterations=16384), NONE),
    "mechanism 0": (put("x", 0), UNSUPPORTED),
    "mechanism 3": (put("x", 3), UNSUPPORTED),
    "deleted mechanism 3": (drop("x", 3), UNSUPPORTED),
    "empty name": (put(""), UNACCEPTABLE),
    "empty name, mechanism 3": (put("", 3), UNACCEPTABLE),
    "deleted empty name": (drop(""), UNACCEPTABLE),
    "mechanism 3, 1 iteration": (put("x", 3, 1), UNSUPPORTED),
    "deleted unknown user": (drop("x"), NOT_FOUND),
    "deleted other mechanism": (drop("alice", SHA_512), NOT_FOUND),
    "no salt": (put("x", salt=Secret()), UNACCEPTABLE),
    "long salt": (put("x", salt=Secret(SALT_BYTES_MAX + 1)), UNACCEPTABLE),
    "longest salt": (put("x", salt=Secret(SALT_BYTES_MAX)), NONE),
    "no salted password": (put("x", salted=Secret()), UNACCEPTABLE),
    "salted password of the other mechanism": (put("x", SHA_512, salted=Secret(32)), UNACCEPTABLE),
    "long name": (put("x" * (NAME_BYTES_MAX + 1)), UNACCEPTABLE),
    "longest name": (put("ä" * (NAME_BYTES_MAX // 2)), NONE),
    "NUL in the name": (put("a\0b"), UNACCEPTABLE),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_refused(bench: Bench, case: str) -> None:
    """SE-81: one entry of a request; the others are done."""
    change, code = REFUSED[case]
    await bench.alter(put("alice"))
    assert await bench.alter(change, put("bob")) == {change.user: code, "bob": NONE}
    known = {user for user, *_ in await bench.describe()}
    assert known == {"alice", "bob"} | ({change.user} if code == NONE else set())


TWICE = {
    "two upsertions": (put("x"), put("x", SHA_512)),
    "two deletions": (drop("alice"), drop("alice", SHA_512)),
    "deleted and upserted": (drop("alice"), put("alice", SHA_512)),
    "three upsertions": (put("x"), put("x"), put("x")),
    "the second is bad": (put("x"), put("x", 3)),
}


@pytest.mark.parametrize("case", TWICE)
async def test_a_user_twice(bench: Bench, case: str) -> None:
    """SE-81: neither is done, whatever the mechanisms."""
    await bench.alter(put("alice"), put("bob"))
    before = await bench.describe()
    user = TWICE[case][0].user
    # The second deletion in "two deletions" is of a credential that there is not, but comes second.
    assert await bench.alter(*TWICE[case], put("bob", SHA_512)) == {user: DUPLICATE, "bob": NONE}
    assert [one for one in await bench.describe() if one[0] != "bob"] == before[:1]


async def test_the_first_error_of_a_user_counts(bench: Bench) -> None:
    assert await bench.alter(drop("x"), put("x")) == {"x": NOT_FOUND}
    assert await bench.describe() == []


async def test_describe_names(bench: Bench) -> None:
    await bench.alter(put("alice"), put("bob"))
    assert await bench.describe("bob", "nobody", "alice", "alice") == [
        ("bob", NONE, ((SHA_256, 4096),)),
        ("nobody", NOT_FOUND, ()),
        ("alice", DUPLICATE, ()),
    ]
    every = await bench.requests.describe(bench.context, DescribeUserScramCredentialsRequest(None))
    assert [one.user for one in every.results] == ["alice", "bob"]


async def test_rights(bench: Bench) -> None:
    """DESCRIBE and ALTER on the cluster."""
    asked: list[tuple[Operation, Resource, str]] = []

    def rule(operation: Operation, resource: Resource, name: str) -> bool:
        asked.append((operation, resource, name))
        return False

    bench.context = RequestContext(0, 0, access=ByRule(rule))
    with pytest.raises(ApiError) as refused:
        await bench.describe()
    assert refused.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    with pytest.raises(ApiError) as refused:
        await bench.alter(put("alice"))
    assert refused.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert asked == [
        (Operation.DESCRIBE, Resource.CLUSTER, "kafka-cluster"),
        (Operation.ALTER, Resource.CLUSTER, "kafka-cluster"),
    ]
    assert bench.users.names() == []


async def test_as_many_users_as_there_may_be() -> None:
    bench = await Bench(most=2).start()
    await bench.alter(put("a"))
    full = ErrorCode.POLICY_VIOLATION
    assert await bench.alter(put("b"), put("c"), put("a", SHA_512)) == {
        "b": NONE,
        "c": full,
        "a": NONE,
    }
    assert await bench.alter(put("c")) == {"c": full}
    assert await bench.alter(put("a"), put("b")) == {"a": NONE, "b": NONE}
    await bench.alter(drop("b"))
    assert await bench.alter(put("c")) == {"c": NONE}


@pytest.mark.parametrize("broken", ["before", "after"])
async def test_a_store_that_fails(bench: Bench, broken: str) -> None:
    """Whether the change is in the store is unknown, so it is read again before the next one."""
    await bench.alter(put("alice"))
    bench.store.broken = broken
    with pytest.raises(ApiError) as refused:
        await bench.alter(put("bob"), drop("alice"))
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert bench.audit.seen == [("alice", "SCRAM-SHA-256", False)]
    bench.store.broken = ""
    assert await bench.alter(put("carol")) == {"carol": NONE}
    found = {user for user, *_ in await bench.describe()}
    assert found == {"carol", "alice" if broken == "before" else "bob"}


async def test_a_damaged_entry_is_no_user(bench: Bench) -> None:
    for key, value in (("SCRAM-SHA-256:x", "[]"), ("SCRAM-SHA-1:x", '["YQ==","YQ==","YQ==",1]')):
        await bench.store.change_security([SecurityEntry("scram", key, value)])
        with pytest.raises(LogCorrupt, match="user 'x'"):
            await bench.users.load()
        await bench.store.change_security([SecurityEntry("scram", key, None)])


async def test_changes_at_the_same_time(bench: Bench) -> None:
    answers = await asyncio.gather(*[bench.alter(put("x"), drop("y")) for _ in range(5)])
    assert answers == [{"x": NONE, "y": NOT_FOUND}] * 5
    answers = await asyncio.gather(*[bench.alter(drop("x")) for _ in range(3)])
    assert sorted(one["x"] for one in answers) == [NONE, NOT_FOUND, NOT_FOUND]
