"""The authorizer answers as Kafka's StandardAuthorizer does, which is asked directly: random ACLs,
random questions, no difference (`docs/spec/security.md#3`).

Left out: IPv6 addresses, which it compares as text; and names that begin with an asterisk and go
on, such as "*x", to which it does not apply the ACLs for all resources."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

from groupd.coordinator.config.coordinator_config import CoordinatorConfig, with_settings
from groupd.coordinator.core.types import Operation, Resource
from groupd.coordinator.security.acls import AclIndex, PatternType, Permission
from groupd.coordinator.security.audit import Audit
from groupd.coordinator.security.authorizer import Authorizer
from groupd.protocol.messages.acls import AclBinding
from tests.support.toolchain import java, oracle_classpath

SOURCE = Path(__file__).parent / "authorizer" / "AuthorizerAnswers.java"
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
SETS = 400
QUESTIONS = 50
TIMEOUT_S = 120

TYPES = (Resource.TOPIC, Resource.GROUP, Resource.CLUSTER, Resource.TRANSACTIONAL_ID)
NAMES = ("f", "fo", "foo", "foobar", "*", "bar", "hardcode", "ha")
PRINCIPALS = ("User:alice", "User:bob", "User:*", "Group:alice", "User:Alice")
ASKERS = ("User:alice", "User:bob", "User:ANONYMOUS", "User:root")
HOSTS = ("*", "*", "127.0.0.1", "10.0.0.1", "10.0.0.0/30", "127.0.0.0/8", "0.0.0.0/0")
ADDRESSES = ("127.0.0.1", "10.0.0.1", "10.0.0.2")
OPERATIONS = tuple(one for one in Operation if one > Operation.ALL)
IN_ACLS = (Operation.ALL, *OPERATIONS)


def test_the_same_answers() -> None:
    chance = random.Random(11)
    lines: list[str] = []
    ours: list[tuple[str, bool]] = []

    def say(*words: object) -> str:
        lines.append("\t".join(str(int(one) if isinstance(one, int) else one) for one in words))
        return lines[-1]

    for _ in range(SETS):
        everyone = chance.random() < 0.3
        lines.append(f"set\t{str(everyone).lower()}")
        config = with_settings(
            CoordinatorConfig(),
            {
                "authorizer.class.name": (
                    "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
                ),
                "super.users": "User:root",
                "allow.everyone.if.no.acl.found": str(everyone).lower(),
            },
        )
        authorizer = Authorizer(config, Audit())
        acls = {
            AclBinding(
                chance.choice(TYPES),
                chance.choice(NAMES),
                chance.choice((PatternType.LITERAL, PatternType.PREFIXED)),
                chance.choice(PRINCIPALS),
                chance.choice(HOSTS),
                chance.choice(IN_ACLS),
                chance.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
            )
            for _ in range(chance.randrange(25))
        }
        authorizer.acls = AclIndex(acls)
        for one in acls:
            say("acl", one.resource_type, one.name, one.pattern, one.principal, one.host,
                one.operation, one.permission)  # fmt: skip
        for _ in range(QUESTIONS):
            principal, address = chance.choice(ASKERS), chance.choice(ADDRESSES)
            operation, resource = chance.choice(OPERATIONS), chance.choice(TYPES)
            access = authorizer.access(principal, f"/{address}")
            if chance.random() < 0.2:
                asked = say("any", principal, address, operation, resource)
                ours.append((asked, access.allows_any(operation, resource)))
            else:
                name = chance.choice(NAMES)
                asked = say("ask", principal, address, operation, resource, name)
                ours.append((asked, access.sees(operation, resource, name)))

    said = subprocess.run(
        [
            java(),
            QUIET,
            "-cp",
            oracle_classpath(),
            str(SOURCE),
        ],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    theirs = [line == "1" for line in said.stdout.split()]
    assert len(theirs) == len(ours) == SETS * QUESTIONS
    differences = [
        (asked, answer)
        for (asked, answer), other in zip(ours, theirs, strict=True)
        if answer != other
    ]
    assert differences == []
    assert 0.05 < sum(theirs) / len(theirs) < 0.95
