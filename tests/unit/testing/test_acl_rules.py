"""ACLs written as lines."""

from __future__ import annotations

import pytest

from groupd.coordinator.core.types import CLUSTER_NAME, Operation, Resource
from groupd.coordinator.faults.errors import HarnessError
from groupd.coordinator.security.acls import PatternType, Permission
from groupd.protocol.messages.acls import AclBinding
from groupd.testing.users_and_acls import parse, shown


def acl(
    resource: Resource,
    name: str,
    operation: Operation,
    principal: str = "User:billing",
    pattern: PatternType = PatternType.LITERAL,
    host: str = "*",
    permission: Permission = Permission.ALLOW,
) -> AclBinding:
    return AclBinding(
        int(resource), name, int(pattern), principal, host, int(operation), int(permission)
    )


LINES = {
    "billing may READ topic orders": acl(Resource.TOPIC, "orders", Operation.READ),
    "billing may READ topic orders-*": acl(
        Resource.TOPIC, "orders-", Operation.READ, pattern=PatternType.PREFIXED
    ),
    "everybody may DESCRIBE group *": acl(Resource.GROUP, "*", Operation.DESCRIBE, "User:*"),
    "billing may not WRITE transactional-id tx from 10.0.0.1": acl(
        Resource.TRANSACTIONAL_ID,
        "tx",
        Operation.WRITE,
        host="10.0.0.1",
        permission=Permission.DENY,
    ),
    "billing may ALTER cluster": acl(Resource.CLUSTER, CLUSTER_NAME, Operation.ALTER),
    "Group:x may ALL user alice": acl(Resource.USER, "alice", Operation.ALL, "Group:x"),
}


@pytest.mark.parametrize("line", LINES)
def test_lines(line: str) -> None:
    assert parse([line]) == [LINES[line]]
    assert shown(LINES[line]) == line


def test_several_operations_are_several_acls_and_the_same_one_counts_once() -> None:
    rules = ["billing may read,Describe topic t", "User:billing may READ topic t"]
    assert [Operation(one.operation) for one in parse(rules)] == [
        Operation.READ,
        Operation.DESCRIBE,
    ]


def test_fields() -> None:
    star = {"principal": "a b", "operation": "read", "resource_type": "topic", "name": "x*"}
    assert parse([star]) == [acl(Resource.TOPIC, "x*", Operation.READ, "User:a b")]
    cluster = {"principal": "User:a", "operation": "alter", "resource_type": "cluster"}
    assert parse([cluster])[0].name == CLUSTER_NAME


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("billing READ topic t", "write PRINCIPAL may"),
        ("billing may READ topic", "write PRINCIPAL may"),
        ("billing may READ cluster x", "only a cluster has no name"),
        ("billing may REED topic t", "did you mean READ"),
        ("billing may ANY topic t", "no operation 'ANY'"),
        ("billing may READ topik t", "did you mean TOPIC"),
        ({"principal": "a", "operation": "read", "resource": "topic"}, "resource_type"),
        ({"principal": "a", "operation": "read"}, "resource_type is missing"),
    ],
)
def test_mistakes_are_one_line(rule: object, said: str) -> None:
    with pytest.raises(HarnessError, match=said) as caught:
        parse([rule])  # type: ignore[list-item]
    assert "\n" not in str(caught.value)
