"""What the harness says to somebody who has made one of the usual mistakes."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest

import groupd.testing
from groupd.coordinator.faults.errors import HarnessError, WaitTimeout
from groupd.testing.harness import GroupCoordinator
from tests.harness.test_plugin import run

AUDIT = {"security": "SASL_PLAINTEXT", "users": {"audit": "secret"}}
ORDERS = {"orders": 3}
FIELDS = (
    "acknowledges, after, api, applied, client_id, code, count, group, member, message, ms, node, "
    "probability, seed, skip, topic, transactional_id"
)


def said(wait: Callable[[], object]) -> list[str]:
    with pytest.raises(WaitTimeout) as caught:
        wait()
    return [line.strip() for line in str(caught.value).splitlines()]


@pytest.mark.groupd(topics=ORDERS)
def test_a_misspelt_topic_of_a_member(groupd: GroupCoordinator) -> None:
    groupd.consumer("billing", "order", protocol="consumer")
    groupd.wait_members("billing", 1)
    lines = said(lambda: groupd.wait_owned("billing", "orders", 0, timeout=0.05))
    assert "subscribes to order (there is no such topic; did you mean orders?)" in lines


@pytest.mark.groupd(topics=ORDERS)
def test_a_misspelt_topic_of_a_client_that_waits_for_it(groupd: GroupCoordinator) -> None:
    """librdkafka joins a classic group when its topic is there."""
    groupd.consumer("billing", "order")
    lines = said(lambda: groupd.wait_members("billing", 1, timeout=1))
    assert "clients look for a topic order, which is not there; did you mean orders?" in lines


@pytest.mark.groupd(topics=ORDERS)
def test_what_a_member_subscribes_to(groupd: GroupCoordinator) -> None:
    groupd.consumer("billing", "orders", protocol="consumer")
    groupd.wait_members("billing", 1)
    lines = said(lambda: groupd.wait_committed("billing", "orders", 0, 1, timeout=0.05))
    assert "subscribes to orders" in lines
    groupd.consumer("audit", "^ord.*", protocol="consumer")
    groupd.wait_members("audit", 1)
    lines = said(lambda: groupd.wait_members("audit", 2, timeout=0.05))
    assert "subscribes to the regular expression (^ord.*)" in lines


@pytest.mark.groupd(topics=ORDERS, acls=["audit may READ topic orders"], **AUDIT)
def test_a_group_that_the_acls_refuse_is_not_a_misspelt_one(groupd: GroupCoordinator) -> None:
    groupd.consumer("audit", "orders", user="audit", protocol="consumer")
    fault = groupd.fault("drop", api="OffsetCommit")
    said(lambda: groupd.wait_members("audit", 1, timeout=1))
    for wait in (
        lambda: groupd.wait_members("audit", 1, timeout=0.05),
        lambda: groupd.wait_records("orders", 1, timeout=0.05),
        lambda: fault.wait(timeout=0.05),
    ):
        lines = said(wait)
        assert "refused by the ACLs:" in lines
        (line,) = (one for one in lines if one.startswith("FindCoordinator"))
        assert line.startswith("FindCoordinator: audit may not DESCRIBE group audit (")
    lines = said(lambda: groupd.wait_members("audit", 1, timeout=0.05))
    assert "there is no group audit, though clients have named it" in lines


@pytest.mark.groupd(topics=ORDERS, acls=["audit may READ group audit"], **AUDIT)
def test_a_topic_that_the_acls_refuse(groupd: GroupCoordinator) -> None:
    groupd.consumer("audit", "orders", user="audit", protocol="consumer")
    lines = said(lambda: groupd.wait_owned("audit", "orders", 0, timeout=1))
    assert any(" audit may not DESCRIBE topic orders (" in line for line in lines), lines


MISSPELT: dict[str, Callable[[GroupCoordinator], object]] = {
    "RecipeCalls has no zombi_member; did you mean zombie_member?": (
        lambda c: c.recipes.zombi_member  # type: ignore[attr-defined]
    ),
    "GroupCoordinator has no wait_commited; did you mean wait_committed?": (
        lambda c: c.wait_commited  # type: ignore[attr-defined]
    ),
    "FaultHandle has no hit; did you mean hits?": (
        lambda c: c.fault("drop").hit  # type: ignore[attr-defined]
    ),
    "aio has no wait_stabel; did you mean wait_stable?": (
        lambda c: c.aio.wait_stabel  # type: ignore[attr-defined]
    ),
    "HarnessClock has no xyz; it has advance, freeze, now_ms, run": (
        lambda c: c.clock.xyz  # type: ignore[attr-defined]
    ),
}


@pytest.mark.parametrize("text", MISSPELT)
def test_a_misspelt_member(groupd: GroupCoordinator, text: str) -> None:
    with pytest.raises(AttributeError) as caught:
        MISSPELT[text](groupd)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("grup", "a fault has no grup; did you mean group?"),
        (
            "xyz",
            f"a fault has no xyz; it has {FIELDS}",
        ),
    ],
)
def test_a_misspelt_field_of_a_fault(groupd: GroupCoordinator, field: str, text: str) -> None:
    with pytest.raises(HarnessError) as caught:
        groupd.faults.add("drop", **{field: "billing"})  # type: ignore[arg-type]
    assert str(caught.value) == text


def test_faults_of_all_kinds_show_what_they_are(groupd: GroupCoordinator) -> None:
    fault = groupd.fault("error", api="OffsetCommit", code="NOT_COORDINATOR", count=2)
    assert repr(fault) == "<Fault 1 error api=OffsetCommit count=2 code=NOT_COORDINATOR: 0 hits>"
    moved = groupd.faults.move_coordinator("billing")
    assert repr(moved).startswith("<Incident move_coordinator: <Fault 2 error api=")
    moved.remove()
    assert repr(moved) == ("<Incident move_coordinator: <Fault 2, removed>, <Fault 3, removed>>")
    incident = groupd.recipes.fatal_heartbeat_error("billing")
    assert repr(incident) == (
        "<Incident fatal_heartbeat_error: code GROUP_AUTHORIZATION_FAILED, <Fault 4 error "
        "api=Heartbeat,ConsumerGroupHeartbeat,ShareGroupHeartbeat group=billing count=1 "
        "code=GROUP_AUTHORIZATION_FAILED: 0 hits>>"
    )
    assert repr(groupd.faults).count(": 0 hits") == 2
    groupd.close()
    assert repr(fault) == "<Fault 1, removed>"
    assert repr(groupd.faults) == "<Faults of a closed broker>"
    assert repr(groupd.clock) == "<Clock of a closed broker>"


@pytest.mark.parametrize(
    "name", ["HarnessError", "InvariantViolation", "NotFound", "RequestRefused", "WaitTimeout"]
)
def test_an_error_has_the_name_that_tests_import(name: str) -> None:
    kind = getattr(groupd.testing, name)
    assert f"{kind.__module__}.{kind.__qualname__}" == f"groupd.testing.{name}"
    back = pickle.loads(pickle.dumps(kind("why")))
    assert (type(back), str(back)) == (kind, "why")


def test_the_summary_of_pytest_has_the_message(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("COLUMNS", "160")
    result = run(pytester, "def test_lag(groupd):\n    groupd.lag('biling')\n")
    (line,) = (one for one in result.outlines if one.startswith("FAILED"))
    assert line.endswith("::test_lag - groupd.testing.NotFound: no group biling; groups: none")
