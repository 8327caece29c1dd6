"""ACLs decide as docs/spec/security.md#3 says: against a plain reading of it, and case by case."""

from __future__ import annotations

import random
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupd.coordinator.core.types import Operation, Resource
from groupd.coordinator.security import acls as module
from groupd.coordinator.security.acls import (
    AclIndex,
    PatternType,
    Permission,
    check_binding,
    matches,
    parse_address,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.acls import AclBinding, AclFilter
from tests.support.acls import acl
from tests.support.examples import examples

PREFIXED = PatternType.PREFIXED
ASKED = tuple(operation for operation in Operation if operation > Operation.ALL)
NAMES = ("f", "fo", "foo", "foobar", "*", "*x", "bar")
PRINCIPALS = ("User:alice", "User:bob", "User:*", "Group:x", "User:Alice")
HOSTS = ("*", "127.0.0.1", "127.0.0.0/8", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1", "here")
ADDRESSES = ("127.0.0.1", "10.0.0.1", "::1", "::ffff:127.0.0.1", "?")

bindings = st.builds(
    AclBinding,
    st.sampled_from((Resource.TOPIC, Resource.GROUP)),
    st.sampled_from(NAMES),
    st.sampled_from((PatternType.LITERAL, PREFIXED)),
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.sampled_from((Operation.ALL, *ASKED)),
    st.sampled_from((Permission.DENY, Permission.ALLOW)),
)
questions = st.tuples(
    st.sampled_from(PRINCIPALS),
    st.sampled_from(ADDRESSES),
    st.sampled_from(ASKED),
    st.sampled_from((Resource.TOPIC, Resource.GROUP)),
    st.sampled_from(NAMES),
)


def fits(one: AclBinding, resource: Resource, name: str) -> bool:
    if one.resource_type != resource:
        return False
    if one.pattern == PatternType.PREFIXED:
        return name.startswith(one.name)
    return one.name in (name, "*")


def is_for(one: AclBinding, principal: str, host: str) -> bool:
    if one.principal not in (principal, "User:*"):
        return False
    if one.host == "*":
        return True
    try:
        address = ip_address(host)
        mapped = getattr(address, "ipv4_mapped", None)
        if "/" in one.host:
            return (mapped or address) in ip_network(one.host)
        wanted = ip_address(one.host)
        return (mapped or address) == (getattr(wanted, "ipv4_mapped", None) or wanted)
    except ValueError:
        return False


def plainly(
    acls: list[AclBinding],
    everyone: bool,
    principal: str,
    host: str,
    operation: Operation,
    resource: Resource,
    name: str,
) -> bool:
    """Decides by the four steps of the rule, over all ACLs."""
    implied = {
        Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
        Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
    }.get(operation, set())
    candidates = [one for one in acls if fits(one, resource, name)]
    apply = [one for one in candidates if is_for(one, principal, host)]
    for one in apply:
        if one.permission == Permission.DENY and one.operation in (Operation.ALL, operation):
            return False
    for one in apply:
        if one.permission == Permission.ALLOW and one.operation in {
            Operation.ALL,
            operation,
            *implied,
        }:
            return True
    return everyone and not candidates


def ask(
    index: AclIndex,
    principal: str,
    host: str,
    operation: Operation,
    resource: Resource,
    name: str,
    *,
    everyone: bool = False,
) -> bool:
    address = parse_address(host)
    return index.decide(
        principal, address, operation, resource, name, if_none_found=everyone
    ).allowed


@examples(300)
@given(
    st.lists(bindings, max_size=12),
    st.lists(st.integers(0, 11), max_size=6),
    st.booleans(),
    st.lists(questions, min_size=1, max_size=10),
)
def test_decides_as_a_plain_reading_does(
    acls: list[AclBinding], removed: list[int], everyone: bool, asked: list[tuple[object, ...]]
) -> None:
    index = AclIndex(acls)
    gone = {acls[at] for at in removed if at < len(acls)}
    for one in gone:
        index.remove(one)
    left = [one for one in acls if one not in gone]
    assert set(index) == set(left)
    for question in asked:
        expected = plainly(left, everyone, *question)  # type: ignore[arg-type]
        assert ask(index, *question, everyone=everyone) is expected  # type: ignore[arg-type]


def any_plainly(acls: list[AclBinding], principal: str, host: str, operation: Operation) -> bool:
    mine = [
        one
        for one in acls
        if one.resource_type == Resource.TOPIC
        and is_for(one, principal, host)
        and one.operation in (operation, Operation.ALL)
    ]
    denied = [one for one in mine if one.permission == Permission.DENY]
    if any(one.name == "*" and one.pattern == PatternType.LITERAL for one in denied):
        return False
    for one in mine:
        if one.permission == Permission.DENY:
            continue
        if one.name == "*" and one.pattern == PatternType.LITERAL:
            return True
        for no in denied:
            if no.pattern == PatternType.PREFIXED and one.name.startswith(no.name):
                break
            if (no.pattern, no.name) == (one.pattern, one.name) == (PatternType.LITERAL, no.name):
                break
        else:
            return True
    return False


@examples(300)
@given(st.lists(bindings, max_size=12), questions)
def test_any_topic_as_a_plain_reading_does(
    acls: list[AclBinding], asked: tuple[str, str, Operation, Resource, str]
) -> None:
    principal, host, operation, _, _ = asked
    expected = any_plainly(list(dict.fromkeys(acls)), principal, host, operation)
    address = parse_address(host)
    found = AclIndex(acls).allows_any(principal, address, operation, Resource.TOPIC)
    assert found is expected


def test_deny_wins_whatever_is_longer_or_literal() -> None:
    """SE-51."""
    index = AclIndex(
        [
            acl("ALLOW alice ALL topic *"),
            acl("DENY alice READ topic fo", PREFIXED),
        ]
    )
    for operation, allowed in (("READ", False), ("WRITE", True), ("DESCRIBE", True)):
        asked = ("User:alice", "10.0.0.1", Operation[operation], Resource.TOPIC, "foo")
        assert ask(index, *asked) is allowed


def test_implied_operations() -> None:
    """SE-52."""
    index = AclIndex(
        [
            acl("ALLOW alice READ topic foo"),
            acl("ALLOW alice ALTER_CONFIGS topic set"),
            acl("ALLOW alice CREATE topic new"),
        ]
    )

    def may(operation: Operation, name: str) -> bool:
        return ask(index, "User:alice", "10.0.0.1", operation, Resource.TOPIC, name)

    assert may(Operation.DESCRIBE, "foo")
    assert may(Operation.DESCRIBE_CONFIGS, "set")
    assert not may(Operation.DESCRIBE, "new")
    index.add(acl("DENY alice DESCRIBE topic foo"))
    assert not may(Operation.DESCRIBE, "foo")
    assert may(Operation.READ, "foo")


@pytest.mark.parametrize(
    ("host", "client", "allowed"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("127.0.0.1", "::ffff:127.0.0.1", True),
        ("127.0.0.0/8", "127.9.9.9", True),
        ("127.0.0.1/8", "127.9.9.9", True),
        ("127.0.0.0/8", "128.0.0.1", False),
        ("127.0.0.0/8", "::ffff:127.0.0.1", True),
        ("0:0:0:0:0:0:0:1", "::1", True),
        ("2001:db8::/32", "2001:db8:1::7", True),
        ("2001:db8::/32", "127.0.0.1", False),
        ("0.0.0.0/0", "::1", False),
        ("fe80::1", "fe80::1%eth0", True),
        ("localhost", "127.0.0.1", False),
        ("*", "unknown", True),
        ("0.0.0.0/0", "unknown", False),
    ],
)
def test_hosts(host: str, client: str, allowed: bool) -> None:
    """SE-53."""
    index = AclIndex([acl("ALLOW alice READ topic foo", host=host)])
    assert ask(index, "User:alice", client, Operation.READ, Resource.TOPIC, "foo") is allowed


@pytest.mark.parametrize(
    ("one", "mistake"),
    [
        (acl("ALLOW alice READ topic foo"), ""),
        (acl("ALLOW alice ALTER cluster kafka-cluster"), ""),
        (acl("ALLOW alice READ topic foo", host="10.0.0.0/8"), ""),
        (acl("ALLOW alice READ topic foo", host="2001:db8::/32"), ""),
        (acl("ALLOW alice READ topic foo", host="some.where"), ""),
        (acl("ALLOW alice READ topic foo", principal="Group:x"), ""),
        (acl("ALLOW alice READ topic foo", principal=":"), ""),
        (acl("ALLOW alice READ topic foo", name=""), "empty"),
        (acl("ALLOW alice ALTER cluster x"), "kafka-cluster"),
        (acl("ALLOW alice READ topic foo", principal="alice"), "User:alice"),
        (acl("ALLOW alice READ topic foo", host=""), "empty"),
        (acl("ALLOW alice READ topic foo", host="10.0.0.0/33"), "range"),
        (acl("ALLOW alice READ topic foo", host="10.0.0.0/255.0.0.0"), "range"),
        (acl("ALLOW alice READ topic foo", host="10.0.0.0/"), "range"),
        (acl("ALLOW alice READ topic foo", host="here/there"), "range"),
        (acl("ALLOW alice READ topic foo", host="::ffff:10.0.0.0/104"), "range"),
    ],
)
def test_what_may_be_made(one: AclBinding, mistake: str) -> None:
    """SE-55."""
    if not mistake:
        check_binding(one)
        return
    with pytest.raises(ApiError, match=mistake) as refused:
        check_binding(one)
    assert refused.value.code == ErrorCode.INVALID_REQUEST


def test_filters_by_name() -> None:
    """SE-56."""
    literal, everything = acl("ALLOW alice READ topic foobar"), acl("ALLOW alice READ topic *")
    foo = acl("ALLOW alice READ topic foo", PREFIXED)
    bar = acl("ALLOW alice READ topic bar", PREFIXED)

    def found(name: str | None, pattern: PatternType) -> list[AclBinding]:
        wanted = AclFilter(Resource.TOPIC, name, pattern)
        return [one for one in (literal, everything, foo, bar) if matches(wanted, one)]

    assert found("foobar", PatternType.MATCH) == [literal, everything, foo]
    assert found("foo", PatternType.ANY) == [foo]
    assert found("*", PatternType.LITERAL) == [everything]
    assert found("foo", PatternType.LITERAL) == []
    assert found("foo", PREFIXED) == [foo]
    assert found(None, PREFIXED) == [foo, bar]
    assert found(None, PatternType.MATCH) == [literal, everything, foo, bar]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclFilter(), True),
        (AclFilter(Resource.GROUP), False),
        (AclFilter(principal="User:alice"), True),
        (AclFilter(principal="User:*"), False),
        (AclFilter(host="*"), True),
        (AclFilter(host="10.0.0.1"), False),
        (AclFilter(operation=Operation.READ), True),
        (AclFilter(operation=Operation.DESCRIBE), False),
        (AclFilter(operation=Operation.ALL), False),
        (AclFilter(permission=Permission.ALLOW), True),
        (AclFilter(permission=Permission.DENY), False),
    ],
)
def test_filters_by_everything_else(wanted: AclFilter, found: bool) -> None:
    assert matches(wanted, acl("ALLOW alice READ topic foo")) is found


def test_a_decision_costs_the_same_with_ten_thousand_acls() -> None:
    """Counted, not timed: how many ACLs a question looks at."""
    chance = random.Random(7)
    many = [
        acl("ALLOW x READ topic x", principal=f"User:{number % 500}", name=f"t{number}")
        for number in range(9_000)
    ] + [
        acl(
            "DENY x WRITE topic x",
            PatternType.PREFIXED,
            principal=f"User:{number}",
            name="p" * length,
        )
        for number in range(100)
        for length in range(1, 11)
    ]
    chance.shuffle(many)
    index = AclIndex(many)
    looked_at = 0
    for patterns in index._of("User:7", Resource.TOPIC):
        for acls in patterns.covering("t507"):
            looked_at += len(acls)
    assert looked_at == 1
    assert ask(index, "User:7", "10.0.0.1", Operation.READ, Resource.TOPIC, "t507")
    assert not ask(index, "User:8", "10.0.0.1", Operation.READ, Resource.TOPIC, "t507")


def test_a_decision_reads_no_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """That would take half a second with the most ACLs that there may be, all on the loop."""
    many = [
        acl("ALLOW alice WRITE topic foo", host=f"10.{number >> 8}.{number & 255}.7")
        for number in range(5000)
    ]
    index = AclIndex([*many, acl("ALLOW alice WRITE topic foo", host="10.99.0.0/16")])
    read: list[str] = []
    monkeypatch.setattr(module, "_parse_range", read.append)
    monkeypatch.setattr(module, "parse_address", read.append)
    for host, allowed in (("10.1.1.7", True), ("10.99.1.1", True), ("10.1.1.8", False)):
        address = ip_address(host)
        asked = "User:alice", address, Operation.WRITE, Resource.TOPIC
        assert index.decide(*asked, "foo").allowed is allowed
        assert index.allows_any(*asked) is allowed
    assert read == []
