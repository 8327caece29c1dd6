"""`groupd acls` without a broker: which ACLs the flags mean."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from groupd.coordinator.cli.acl_flags import (
    Entries,
    Resources,
    bindings_of,
    check_new,
    exactly,
    filters_of,
    operation_named,
    pattern_type,
)
from groupd.coordinator.cli.parse import UsageError
from groupd.coordinator.core.types import CLUSTER_NAME, Operation, Resource
from groupd.coordinator.security.acls import PatternType, Permission, matches
from groupd.protocol.messages.acls import AclBinding, AclFilter, DeleteAclsRequest
from groupd.protocol.wire.apis import API_BY_REQUEST
from groupd.protocol.wire.registry import MalformedReply
from tests.support.acls import acl
from tests.support.kio_entities import build, message_class, to_bytes

ALICE = Entries(allowed=("User:alice",))


def made(resources: Resources, entries: Entries = ALICE, **roles: bool) -> list[AclBinding]:
    flags = {"producer": False, "consumer": False, "idempotent": False, **roles}
    return bindings_of(resources, entries, **flags)


def test_every_principal_host_operation_and_resource() -> None:
    entries = Entries(
        ("User:alice", "User:bob"),
        ("User:eve",),
        ("10.0.0.1", "10.0.0.2"),
        (),
        (Operation.READ, Operation.WRITE),
    )
    found = made(Resources(topics=("foo", "bar"), groups=("g",)), entries)
    assert len(found) == 3 * 2 * (2 * 2 + 1)
    assert acl("ALLOW bob WRITE topic bar", host="10.0.0.2") in found
    assert acl("DENY eve READ group g") in found


def test_without_operation_everything() -> None:
    assert made(Resources(cluster=True)) == [acl(f"ALLOW alice ALL cluster {CLUSTER_NAME}")]


def test_a_producer() -> None:
    """These are the ACLs that kafka-acls makes."""
    prefixed = PatternType.PREFIXED
    resources = Resources(topics=("foo",), transactional_ids=("x",), pattern=prefixed)
    assert made(resources, producer=True, idempotent=True) == [
        acl("ALLOW alice WRITE topic foo", prefixed),
        acl("ALLOW alice DESCRIBE topic foo", prefixed),
        acl("ALLOW alice CREATE topic foo", prefixed),
        acl("ALLOW alice WRITE transactional_id x", prefixed),
        acl("ALLOW alice DESCRIBE transactional_id x", prefixed),
        acl(f"ALLOW alice IDEMPOTENT_WRITE cluster {CLUSTER_NAME}"),
    ]


def test_a_consumer() -> None:
    resources = Resources(topics=("foo",), groups=("g",))
    assert made(resources, consumer=True) == [
        acl("ALLOW alice READ topic foo"),
        acl("ALLOW alice DESCRIBE topic foo"),
        acl("ALLOW alice READ group g"),
    ]
    both = made(resources, consumer=True, producer=True)
    assert len(both) == len(set(both)) == 5


@pytest.mark.parametrize(
    ("resources", "entries", "roles", "mistake"),
    [
        (Resources(), ALICE, {}, "name a resource"),
        (Resources(topics=("t",)), Entries(), {}, "for whom"),
        (Resources(topics=("t",)), Entries(("User:a",), (), (), ("::1",)), {}, "--deny-principal"),
        (Resources(topics=("t",)), ALICE, {"consumer": True}, "--group"),
        (Resources(groups=("g",)), ALICE, {"producer": True}, "--topic"),
        (
            Resources(topics=("t",)),
            Entries(("User:a",), operations=(Operation.READ,)),
            {"producer": True},
            "of their own",
        ),
        (Resources(topics=("t",), pattern=PatternType.MATCH), ALICE, {}, "literal or prefixed"),
        (Resources(topics=("t",)), ALICE, {"idempotent": True}, "--idempotent needs --producer"),
    ],
)
def test_mistakes(
    resources: Resources, entries: Entries, roles: dict[str, bool], mistake: str
) -> None:
    with pytest.raises(UsageError, match=mistake):
        made(resources, entries, **roles)


@pytest.mark.parametrize("text", ["DescribeConfigs", "describe-configs", "DESCRIBE_CONFIGS"])
def test_names_of_operations(text: str) -> None:
    assert operation_named(text) is Operation.DESCRIBE_CONFIGS


@pytest.mark.parametrize("text", ["any", "unknown", "", "Reed"])
def test_what_is_no_operation(text: str) -> None:
    with pytest.raises(UsageError, match="must be one of ALL, READ"):
        operation_named(text)


def test_patterns() -> None:
    assert pattern_type("Prefixed") is PatternType.PREFIXED
    for text in ("unknown", "glob"):
        with pytest.raises(UsageError, match="must be literal"):
            pattern_type(text)


def test_filters() -> None:
    assert filters_of(Resources()) == [AclFilter()]
    assert filters_of(Resources(), ("User:a", "User:b")) == [
        AclFilter(principal="User:a"),
        AclFilter(principal="User:b"),
    ]
    only = Resources(topics=("foo",), cluster=True, pattern=PatternType.MATCH)
    assert filters_of(only) == [
        AclFilter(Resource.TOPIC, "foo", PatternType.MATCH),
        AclFilter(Resource.CLUSTER, CLUSTER_NAME, PatternType.LITERAL),
    ]
    assert filters_of(Resources(pattern=PatternType.PREFIXED)) == [
        AclFilter(pattern=PatternType.PREFIXED)
    ]


def test_exactly_one() -> None:
    one = acl("ALLOW alice READ topic foo", host="::1")
    wanted = exactly(one)
    assert matches(wanted, one)
    assert Permission.ANY not in (wanted.permission, wanted.operation)
    assert not matches(wanted, acl("ALLOW alice READ topic foo"))


@pytest.mark.parametrize(
    ("resources", "entries", "mistake"),
    [
        (Resources(topics=("t",)), Entries(("alice",)), "--allow-principal alice.*User:alice"),
        (Resources(topics=("t",)), Entries((), (":a",)), "--deny-principal :a.*User:a"),
        (Resources(topics=("t",)), Entries(("User:",)), "--allow-principal User:"),
        (
            Resources(topics=("t",)),
            Entries((), ("User:a",), (), ("a.example",)),
            "--deny-host a.example: must be an IP address",
        ),
        (
            Resources(topics=("t",)),
            Entries(("User:a",), (), ("10.0.0.0/33",)),
            "--allow-host 10.0.0.0/33",
        ),
        (
            Resources(transactional_ids=("t",)),
            Entries(("User:a",), operations=(Operation.READ,)),
            "--operation READ: on a transactional-id there are only ALL, WRITE, DESCRIBE, TWO_PH",
        ),
        (
            Resources(topics=("t",), cluster=True),
            Entries(("User:a",), operations=(Operation.READ,)),
            "on a cluster there are only",
        ),
    ],
)
def test_new_acls_that_would_never_apply(
    resources: Resources, entries: Entries, mistake: str
) -> None:
    """Nobody makes them here, but they may be there, and then they can be removed."""
    acls = made(resources, entries)
    with pytest.raises(UsageError, match=mistake):
        check_new(acls)


def test_new_acls_that_apply() -> None:
    everything = Resources(("t",), ("g",), ("i",), cluster=True, users=("User:u",))
    check_new(made(everything, Entries(("User:a",), ("User:*",), ("::1", "10.0.0.0/8"))))
    producing = Resources(("t",), transactional_ids=("i",))
    check_new(made(producing, producer=True, idempotent=True))
    check_new(made(Resources(("t",), ("g",)), consumer=True))


def test_principals_of_a_list_have_a_type() -> None:
    with pytest.raises(UsageError, match=r"--principal alice: .*User:alice"):
        filters_of(Resources(), ("alice",))


def test_an_acl_that_a_broker_has_kept_is_not_told_as_removed() -> None:
    """Brokers before Kafka 4.0 may delete one of several and refuse another."""
    kept = {
        "error_code": ErrorCode.unknown_server_error,
        "error_message": "no",
        "resource_type": 2,
        "resource_name": "t",
        "pattern_type": 3,
        "principal": "User:alice",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    result = {"error_code": ErrorCode.none, "error_message": None, "matching_acls": [kept]}
    reply = build(message_class("DeleteAcls", 3, "response"), {"filter_results": [result]})
    with pytest.raises(MalformedReply, match="an ACL was not deleted: UNKNOWN_SERVER_ERROR"):
        API_BY_REQUEST[DeleteAclsRequest].decode_reply(to_bytes(reply), 0, 3)
