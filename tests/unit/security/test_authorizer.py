"""The authorizer: super users, kept answers, what is audited, what is durable."""

from __future__ import annotations

from typing import Any

import pytest
import structlog

from groupd.coordinator.config.coordinator_config import CoordinatorConfig, with_settings
from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.core.slices import Turn
from groupd.coordinator.core.types import CLUSTER_NAME, Operation, RequestContext, Resource
from groupd.coordinator.security.acls import AclIndex, PatternType
from groupd.coordinator.security.audit import LINES_MAX, WINDOW_S, Audit
from groupd.coordinator.security.authorizer import KEPT_MAX, AclChanges, Authorizer
from groupd.protocol.messages.acls import AclBinding
from groupd.protocol.messages.data import FetchRequest
from groupd.storage.memory import MemoryStore
from tests.support.acls import acl
from tests.support.seconds import Seconds

PREFIXED = PatternType.PREFIXED
STANDARD = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
TOPIC, CLUSTER = Resource.TOPIC, Resource.CLUSTER
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE


def authorizer(*acls: AclBinding, elapsed: Any = None, **more: str) -> Authorizer:
    given = {name.replace("_", "."): value for name, value in more.items()}
    config = with_settings(CoordinatorConfig(), {**STANDARD, **given})
    made = Authorizer(config, Audit(elapsed or Seconds()))
    made.acls = AclIndex(acls)
    return made


async def no_turn() -> None:
    pass


async def change(
    rights: Authorizer,
    *,
    added: tuple[AclBinding, ...] = (),
    removed: tuple[AclBinding, ...] = (),
    turn: Turn = no_turn,
) -> None:
    store = MemoryStore()
    await store.start()
    await rights.change(store, AclChanges(added, removed), turn)


def test_without_authorizer_everybody_may_do_everything() -> None:
    found = Authorizer(CoordinatorConfig(), Audit()).access("User:alice", "/10.0.0.1")
    assert found.principal == "User:alice"
    assert not found.restricted
    assert found.allows(READ, TOPIC, "foo")


@pytest.mark.parametrize("more", [{}, STANDARD])
async def test_super_users_without_an_authorizer_are_told(more: dict[str, str]) -> None:
    config = with_settings(CoordinatorConfig(), {"super.users": "User:admin", **more})
    store = MemoryStore()
    await store.start()
    with structlog.testing.capture_logs() as logs:
        await Authorizer(config, Audit()).load(store, no_turn)
    assert [one["log_level"] for one in logs] == ([] if more else ["warning"])


async def test_without_acls_only_super_users() -> None:
    """SE-49."""
    rights = authorizer(super_users="User:admin; User:CN=a,O=b")
    alice = rights.access("User:alice", "/10.0.0.1")
    assert alice.restricted
    assert not alice.allows(READ, TOPIC, "foo")
    assert not alice.allows_any(WRITE, TOPIC)
    await change(rights, added=(acl("DENY admin ALL topic *"),))
    for name in ("User:admin", "User:CN=a,O=b"):
        admin = rights.access(name, "/10.0.0.1")
        assert not admin.restricted
        assert admin.allows(READ, TOPIC, "foo")
        assert admin.allows_any(WRITE, TOPIC)


async def test_everyone_where_no_acl_is_found() -> None:
    """SE-49, SE-50."""
    rights = authorizer(allow_everyone_if_no_acl_found="true")
    alice = rights.access("User:alice", "/10.0.0.1")
    assert alice.allows(READ, TOPIC, "foo")
    await change(rights, added=(acl("ALLOW bob READ topic foo"),))
    assert not alice.allows(READ, TOPIC, "foo")
    assert alice.allows(READ, TOPIC, "bar")


def test_everybody_is_anonymous_as_well() -> None:
    """SE-54."""
    rights = authorizer(
        acl("ALLOW x READ topic foo", principal="User:*"),
        acl("ALLOW x WRITE topic foo", principal="Group:x"),
    )
    anonymous = rights.access("User:ANONYMOUS", "/10.0.0.1")
    assert anonymous.allows(READ, TOPIC, "foo")
    assert not anonymous.allows(WRITE, TOPIC, "foo")


@pytest.mark.parametrize(
    ("acls", "allowed"),
    [
        ((), False),
        ((acl("ALLOW alice WRITE topic foo"),), True),
        ((acl("ALLOW alice WRITE topic foo"), acl("DENY alice WRITE topic *")), False),
        (
            (acl("ALLOW alice ALL topic fo", PREFIXED), acl("DENY x ALL topic foo")),
            True,
        ),
        (
            (
                acl("ALLOW alice WRITE topic foo"),
                acl("DENY alice ALL topic f", PREFIXED),
            ),
            False,
        ),
        ((acl("ALLOW alice WRITE topic *"), acl("DENY alice WRITE topic hardcode")), True),
        ((acl("ALLOW alice READ topic foo"),), False),
    ],
)
def test_write_on_any_topic(acls: tuple[AclBinding, ...], allowed: bool) -> None:
    """The authorizer's half of SE-66."""
    assert authorizer(*acls).access("User:alice", "/10.0.0.1").allows_any(WRITE, TOPIC) is allowed


async def test_a_change_counts_for_clients_that_are_there() -> None:
    rights = authorizer()
    alice = rights.access("User:alice", "/10.0.0.1")
    before = alice.version
    assert not alice.sees(READ, TOPIC, "foo")
    assert not alice.allows_any(READ, TOPIC)
    await change(rights, added=(acl("ALLOW alice READ topic foo"),))
    assert alice.version != before
    assert alice.sees(READ, TOPIC, "foo")
    assert alice.allows_any(READ, TOPIC)
    await change(rights, removed=(acl("ALLOW alice READ topic foo"),))
    assert not alice.sees(READ, TOPIC, "foo")
    assert not alice.allows_any(READ, TOPIC)


def test_answers_do_not_mix() -> None:
    rights = authorizer(acl("ALLOW alice READ topic foo"), acl("ALLOW bob READ group foo"))
    alice, bob = (rights.access(name, "/10.0.0.1") for name in ("User:alice", "User:bob"))
    for _ in range(2):
        assert alice.sees(READ, TOPIC, "foo")
        assert not alice.sees(WRITE, TOPIC, "foo")
        assert not alice.sees(READ, Resource.GROUP, "foo")
        assert not bob.sees(READ, TOPIC, "foo")
        assert bob.sees(READ, Resource.GROUP, "foo")
        assert alice.allows_any(READ, TOPIC)
        assert not alice.sees(READ, TOPIC, "")


def test_kept_answers_are_bounded() -> None:
    alice = authorizer(acl("ALLOW alice READ topic t", PREFIXED)).access("User:alice", "/::1")
    for number in range(3 * KEPT_MAX):
        assert alice.sees(READ, TOPIC, f"t{number}")
    assert alice.sees(READ, TOPIC, "t" * 10_000)
    kept = alice._kept  # type: ignore[attr-defined]
    assert 0 < len(kept) <= KEPT_MAX
    assert max(len(name) for name, _ in kept) < 10_000


def test_connections_of_one_client_share_their_rights() -> None:
    rights = authorizer()
    first = rights.access("User:alice", "/10.0.0.1")
    assert rights.access("User:alice", "/10.0.0.1") is first
    assert rights.access("User:alice", "/10.0.0.2") is not first
    del first
    assert len(rights._clients) == 0, "the rights of clients that are gone are forgotten"


# The audit log -------------------------------------------------------------------------------


def audited(rights: Authorizer, *asked: tuple[Operation, Resource, str]) -> list[dict[str, Any]]:
    with structlog.testing.capture_logs() as lines:
        alice = rights.access("User:alice", "/10.0.0.1")
        for question in asked:
            alice.allows(*question, FetchRequest)
    return [dict(line) for line in lines]


def test_a_denial_has_one_line() -> None:
    rights = authorizer(acl("DENY alice READ topic fo", PREFIXED, host="10.0.0.0/8"))
    first, second = audited(
        rights, (READ, TOPIC, "foo"), (Operation.ALTER_CONFIGS, CLUSTER, CLUSTER_NAME)
    )
    assert first == {
        "event": "denied",
        "log": "audit",
        "log_level": "info",
        "principal": "User:alice",
        "operation": "Read",
        "resource": "Topic:LITERAL:foo",
        "api": "Fetch",
        "client": "/10.0.0.1",
        "rule": "DENY User:alice from 10.0.0.0/8 Read on Topic:PREFIXED:fo",
    }
    assert second["operation"] == "AlterConfigs"
    assert second["resource"] == "Cluster:LITERAL:kafka-cluster"
    assert second["rule"] == "DefaultDeny"
    assert (rights.allowed, rights.denied) == (0, 2)


def test_silent_questions_have_no_line() -> None:
    rights = authorizer()
    with structlog.testing.capture_logs() as lines:
        alice = rights.access("User:alice", "/10.0.0.1")
        alice.sees(READ, TOPIC, "foo")
        alice.allows_any(READ, TOPIC)
    assert lines == []
    assert (rights.allowed, rights.denied) == (0, 0)


def test_grants_only_where_debug_is_on() -> None:
    rights = authorizer(acl("ALLOW alice READ topic foo"), super_users="User:root")
    assert audited(rights, (READ, TOPIC, "foo")) == []
    rights.audit.grants = True
    (line,) = audited(rights, (READ, TOPIC, "foo"))
    assert (line["event"], line["log_level"], line["api"]) == ("granted", "debug", "Fetch")
    assert line["rule"] == "ALLOW User:alice from * Read on Topic:LITERAL:foo"
    with structlog.testing.capture_logs() as lines:
        rights.access("User:root", "/10.0.0.1").allows(READ, TOPIC, "foo")
    assert [line["rule"] for line in lines] == ["SuperUser"]


def test_names_cannot_look_like_lines() -> None:
    (line,) = audited(authorizer(), (READ, TOPIC, "a\nlevel=info event=denied\x1b[2K"))
    assert line["resource"] == "Topic:LITERAL:a\\nlevel=info event=denied\\x1b[2K"


def test_repeated_denials_are_counted_not_written() -> None:
    seconds = Seconds()
    rights = authorizer(elapsed=seconds)
    lines = audited(rights, *[(READ, TOPIC, "foo")] * 50)
    assert len(lines) == 1
    many = [(READ, TOPIC, f"t{number}") for number in range(10 * LINES_MAX)]
    assert len(audited(rights, *many)) == LINES_MAX - 1
    seconds.now += WINDOW_S
    left_out, line = audited(rights, (READ, TOPIC, "foo"))
    assert left_out["event"] == "denials left out"
    assert left_out["count"] == 49 + 9 * LINES_MAX + 1
    assert line["resource"] == "Topic:LITERAL:foo"
    assert rights.denied == 50 + 10 * LINES_MAX + 1


def test_the_same_reset_has_one_line_in_a_window() -> None:
    seconds = Seconds()
    audit = Audit(seconds)
    alice = RequestContext(None, 0, access=authorizer().access("User:alice", "/::1"))
    bob = RequestContext(None, 0, access=authorizer().access("User:bob", "/::1"))

    def reset(by: RequestContext, topic: str = "foo") -> list[str]:
        with structlog.testing.capture_logs() as lines:
            audit.offsets_reset(by, "g", topic, {0: 1})
        return [line["event"] for line in lines]

    assert reset(alice) == reset(bob) == reset(alice, "bar") == ["offsets reset"]
    assert [reset(alice) for _ in range(5)] == [[]] * 5
    seconds.now += WINDOW_S
    assert reset(alice) == ["resets of offsets left out", "offsets reset"]

    assert audit.leaves_out_resets(alice, "g", ["foo"])
    assert not audit.leaves_out_resets(alice, "g", ["foo", "bar"])
    assert not audit.leaves_out_resets(bob, "g", ["foo"])
    seconds.now += WINDOW_S
    assert not audit.leaves_out_resets(alice, "g", ["foo"])
    with structlog.testing.capture_logs() as lines:
        audit.offsets_reset(alice, "g", "foo", {0: 1})
    assert [(line["event"], line.get("count")) for line in lines] == [
        ("resets of offsets left out", 1),
        ("offsets reset", None),
    ]


def test_changes_are_written_with_who_made_them() -> None:
    audit = Audit()
    by = RequestContext(
        None, 0, access=authorizer(super_users="User:a\tb").access("User:a\tb", "/::1")
    )
    with structlog.testing.capture_logs() as lines:
        audit.acl_created(by, acl("ALLOW alice READ topic foo"))
        audit.acl_deleted(by, acl("ALLOW alice READ topic foo"))
        audit.user_changed(by, "alice\n", "SCRAM-SHA-256", deleted=False)
        audit.user_changed(by, "alice", "SCRAM-SHA-256", deleted=True)
        audit.quota_changed(by, "user alice", "request_percentage", 5.0)
        audit.quota_changed(by, "user alice", "request_percentage", None)
        audit.offsets_deleted(by, "g", "t", [3])
        audit.offsets_reset(by, "g", "t", {3: 7})
        audit.group_deleted(by, "g")
    assert [line["event"] for line in lines] == [
        "ACL created",
        "ACL deleted",
        "user's credential set",
        "user's credential deleted",
        "quota set",
        "quota removed",
        "offsets deleted",
        "offsets reset",
        "group deleted",
    ]
    assert {line["principal"] for line in lines} == {"User:a\\tb"}
    assert {line["client"] for line in lines} == {"/127.0.0.1"}
    assert lines[2]["user"] == "alice\\n"


# Durable -------------------------------------------------------------------------------------


async def test_acls_are_read_again() -> None:
    store = MemoryStore()
    await store.start()
    odd = acl("ALLOW x READ topic x", PREFIXED, principal='User:"\n☃', name="a b\u0000")
    first = authorizer()
    both = (acl("DENY alice ALL group *"), odd)
    await first.change(store, AclChanges(added=both), no_turn)
    second = authorizer()
    await second.load(store, no_turn)
    assert set(second.acls) == set(first.acls) == set(both)
    await second.change(store, AclChanges(removed=(odd,)), no_turn)
    third = authorizer()
    await third.load(store, no_turn)
    assert list(third.acls) == [both[0]]


async def test_nobody_is_allowed_more_in_the_middle_of_a_change() -> None:
    """A denial for each topic, and what allows it, come and go together."""
    rights, seen = authorizer(), []
    names = [f"t{number}" for number in range(300)]
    allowed = tuple(acl("ALLOW alice READ topic x", name=name) for name in names)
    denied = tuple(acl("DENY alice READ topic x", name=name) for name in names)
    alice = rights.access("User:alice", "/10.0.0.1")

    async def turn() -> None:
        seen.append(any(alice.sees(READ, TOPIC, name) for name in names))

    for acls in ((*allowed, *denied), (*denied, *allowed)):
        await change(rights, added=acls, turn=turn)
        assert len(rights.acls) == 600
        await change(rights, removed=acls, turn=turn)
        assert len(rights.acls) == 0
    assert len(seen) > 10
    assert not any(seen)


async def test_ten_thousand_acls_are_applied_in_turns() -> None:
    store = MemoryStore()
    await store.start()
    rights, turns = authorizer(), 0

    async def turn() -> None:
        nonlocal turns
        turns += 1

    many = tuple(acl("ALLOW alice READ topic x", name=f"t{number}") for number in range(10_000))
    await rights.change(store, AclChanges(added=many), turn)
    assert len(rights.acls) == 10_000
    assert turns >= 100


# Settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("authorizer.class.name", "kafka.security.authorizer.AclAuthorizer"),
        ("super.users", "admin"),
        ("super.users", "User:a,b;c"),
    ],
)
def test_settings_that_end_the_start(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"^{key}="):
        with_settings(CoordinatorConfig(), {key: value})
