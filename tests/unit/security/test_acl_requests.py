"""DescribeAcls, CreateAcls and DeleteAcls, docs/spec/security.md#3.1."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
import structlog

from groupd.coordinator.catalogue_changes import CatalogueChanges
from groupd.coordinator.config.coordinator_config import CoordinatorConfig, with_settings
from groupd.coordinator.config.internal_limits import InternalLimits
from groupd.coordinator.core.types import CLUSTER_NAME, Operation, RequestContext, Resource
from groupd.coordinator.security.acl_requests import CHANGES_MAX, AclRequests
from groupd.coordinator.security.acls import PatternType, Permission
from groupd.coordinator.security.audit import Audit
from groupd.coordinator.security.authorizer import Authorizer
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.acls import (
    AclBinding,
    AclFilter,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from groupd.storage.log import LogUnavailable, SecurityEntry
from groupd.storage.memory import MemoryStore
from tests.support.acls import acl

READ_FOO = acl("ALLOW alice READ topic foo")
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}


async def turn() -> None:
    await asyncio.sleep(0)


class Failing(MemoryStore):
    """A store that takes nothing while `broken`."""

    broken = False

    async def change_security(self, changes: Sequence[SecurityEntry]) -> None:
        if self.broken:
            raise LogUnavailable("the disk is full")
        await super().change_security(changes)


class Broker:
    """Takes requests by name."""

    def __init__(
        self, store: MemoryStore, acls_max: int = InternalLimits.acls_max, **settings: str
    ) -> None:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        config = with_settings(CoordinatorConfig(), {**SETTINGS, **given})
        self.store = store
        self.authorizer = Authorizer(config, Audit())
        requests = AclRequests(self.authorizer, store, CatalogueChanges(), turn, acls_max)
        self._handlers = requests.handlers

    def by(self, user: str) -> RequestContext:
        access = self.authorizer.access(f"User:{user}", "/10.0.0.1")
        return RequestContext(None, 3, client_host="/10.0.0.1", access=access)

    async def ask(self, request: Any, user: str = "admin") -> Any:
        return await self._handlers[type(request)](self.by(user), request)

    async def create(self, *acls: AclBinding, user: str = "admin") -> list[ErrorCode]:
        reply = await self.ask(CreateAclsRequest(acls), user)
        return [result.error for result in reply.results]

    async def delete(self, *filters: AclFilter, user: str = "admin") -> list[list[AclBinding]]:
        reply = await self.ask(DeleteAclsRequest(filters), user)
        assert {result.error for result in reply.results} <= {ErrorCode.NONE}
        return [list(result.matching) for result in reply.results]

    async def all(self, user: str = "admin") -> list[AclBinding]:
        reply = await self.ask(DescribeAclsRequest(AclFilter()), user)
        return [one for resource in reply.resources for one in resource.acls]


def changes(lines: Sequence[Any]) -> list[Any]:
    """Lines about changes, not those about rights."""
    return [line for line in lines if line["event"].startswith("ACL")]


async def a_broker(**settings: Any) -> Broker:
    store = Failing()
    await store.start()
    return Broker(store, **settings)


async def test_one_entry_for_each_resource_pattern() -> None:
    broker = await a_broker()
    on_foo = (READ_FOO, acl("DENY bob WRITE topic foo"))
    prefixed = acl("ALLOW alice READ topic foo", PatternType.PREFIXED)
    assert await broker.create(*on_foo, prefixed) == [ErrorCode.NONE] * 3
    reply = await broker.ask(DescribeAclsRequest(AclFilter()))
    assert [
        (one.resource_type, one.name, one.pattern, set(one.acls)) for one in reply.resources
    ] == [
        (Resource.TOPIC, "foo", PatternType.LITERAL, set(on_foo)),
        (Resource.TOPIC, "foo", PatternType.PREFIXED, {prefixed}),
    ]


async def test_good_ones_are_stored_although_others_are_not() -> None:
    """SE-55."""
    broker = await a_broker()
    assert await broker.create(READ_FOO) == [ErrorCode.NONE]
    write = acl("ALLOW alice WRITE topic foo")
    assert await broker.create(
        READ_FOO,
        acl("ALLOW alice READ topic foo", name=""),
        acl("ALLOW alice ALTER cluster x"),
        write,
        acl("ALLOW alice READ topic foo", principal="alice"),
        acl("ALLOW alice READ topic foo", host=""),
        write,
    ) == [0, 42, 42, 0, 42, 42, 0]
    assert await broker.all() == [READ_FOO, write]


@pytest.mark.parametrize(
    "bad",
    [
        AclBinding(Resource.ANY, "foo", 3, "User:a", "*", Operation.READ, Permission.ALLOW),
        AclBinding(2, "foo", PatternType.ANY, "User:a", "*", Operation.READ, Permission.ALLOW),
        AclBinding(2, "foo", PatternType.MATCH, "User:a", "*", Operation.READ, Permission.ALLOW),
        AclBinding(2, "foo", 3, "User:a", "*", Operation.ANY, Permission.ALLOW),
        AclBinding(2, "foo", 3, "User:a", "*", Operation.READ, Permission.ANY),
    ],
)
async def test_any_in_a_creation_fails_all_of_them(bad: AclBinding) -> None:
    """SE-55."""
    broker = await a_broker()
    with pytest.raises(ApiError) as refused:
        await broker.create(READ_FOO, bad)
    assert refused.value.code == ErrorCode.INVALID_REQUEST
    assert await broker.all() == []


async def test_filters_that_overlap_both_report_it() -> None:
    """SE-57."""
    broker = await a_broker()
    other = acl("ALLOW alice READ topic bar")
    await broker.create(READ_FOO, other)
    filters = (AclFilter(name="foo"), AclFilter(principal="User:alice"), AclFilter(host="::1"))
    assert await broker.delete(*filters) == [[READ_FOO], [READ_FOO, other], []]
    assert await broker.delete(*filters) == [[], [], []]
    assert await broker.all() == []


@pytest.mark.parametrize(
    ("right", "may_describe", "may_change"),
    [("", False, False), ("DESCRIBE", True, False), ("ALTER", True, True), ("ALL", True, True)],
)
async def test_rights_on_the_cluster(right: str, may_describe: bool, may_change: bool) -> None:
    broker = await a_broker()
    if right:
        await broker.create(acl(f"ALLOW alice {right} cluster {CLUSTER_NAME}"))
    for request, allowed in (
        (DescribeAclsRequest(AclFilter()), may_describe),
        (CreateAclsRequest((READ_FOO,)), may_change),
        (DeleteAclsRequest((AclFilter(name="foo"),)), may_change),
    ):
        if allowed:
            await broker.ask(request, "alice")
            continue
        with pytest.raises(ApiError) as refused:
            await broker.ask(request, "alice")
        assert refused.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_without_authorizer() -> None:
    """SE-59."""
    broker = await a_broker(authorizer_class_name="")
    for request in (
        DescribeAclsRequest(AclFilter()),
        CreateAclsRequest((READ_FOO,)),
        DeleteAclsRequest((AclFilter(),)),
    ):
        with pytest.raises(ApiError) as refused:
            await broker.ask(request, "alice")
        assert refused.value.code == ErrorCode.SECURITY_DISABLED


async def test_a_change_that_is_not_durable_has_no_effect() -> None:
    broker = await a_broker()
    await broker.create(READ_FOO)
    store: Any = broker.store
    store.broken = True
    for request in (
        CreateAclsRequest((acl("ALLOW bob READ topic foo"),)),
        DeleteAclsRequest((AclFilter(),)),
    ):
        with structlog.testing.capture_logs() as lines, pytest.raises(ApiError) as refused:
            await broker.ask(request)
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert changes(lines) == []
    assert await broker.all() == [READ_FOO]
    assert not broker.by("bob").allows(Operation.READ, Resource.TOPIC, "foo")
    assert broker.by("alice").allows(Operation.READ, Resource.TOPIC, "foo")


async def test_audit_says_who_changed_what() -> None:
    broker = await a_broker()
    with structlog.testing.capture_logs() as lines:
        await broker.create(READ_FOO, READ_FOO)
        await broker.create(READ_FOO)
        await broker.delete(AclFilter(), AclFilter())
    text = "ALLOW User:alice from * Read on Topic:LITERAL:foo"
    written = changes(lines)
    assert [(line["event"], line["acl"]) for line in written] == [
        ("ACL created", text),
        ("ACL deleted", text),
    ]
    assert {line["principal"] for line in written} == {"User:admin"}
    assert {line["client"] for line in written} == {"/10.0.0.1"}


# Limits --------------------------------------------------------------------------------------


async def test_acls_in_all() -> None:
    broker = await a_broker(acls_max=3)
    some = [acl("ALLOW alice READ topic x", name=f"t{number}") for number in range(5)]
    assert await broker.create(*some) == [0, 0, 0, ErrorCode.POLICY_VIOLATION, 44]
    assert await broker.create(some[0], some[4]) == [0, 44]
    await broker.delete(AclFilter(name="t0"))
    assert await broker.create(some[4]) == [0]


@pytest.mark.slow
async def test_changes_of_one_request() -> None:
    broker = await a_broker()
    many = [acl("ALLOW x READ topic x", name=f"t{n}") for n in range(CHANGES_MAX + 1)]
    with pytest.raises(ApiError) as refused:
        await broker.create(*many)
    assert refused.value.code == ErrorCode.POLICY_VIOLATION
    await broker.create(*many[:-1])
    await broker.create(many[-1])
    with pytest.raises(ApiError) as refused:
        await broker.delete(AclFilter())
    assert refused.value.code == ErrorCode.INVALID_REQUEST
    with pytest.raises(ApiError, match="too many for"):
        await broker.delete(*[AclFilter(name=f"t{n}") for n in range(1000)])
    assert len(await broker.all()) == CHANGES_MAX + 1


async def test_two_changes_at_once_do_not_pass_the_limit() -> None:
    broker = await a_broker(acls_max=1)
    results = await asyncio.gather(
        *(broker.create(acl("ALLOW x READ topic x", name=f"t{n}")) for n in range(2))
    )
    assert sorted(code for codes in results for code in codes) == [0, 44]
