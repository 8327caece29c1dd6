"""`groupd groups list` with a fake admin port: what is shown, and in which order."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from groupd.coordinator.cli.groups.flags import GroupsWanted
from groupd.coordinator.cli.groups.listing import group_cells
from groupd.coordinator.cli.main import main
from groupd.coordinator.cli.parse import UsageError
from tests.support.fake_admin import FakeAdmin, fake_admin, group_row

JOINED = {"timestamp_ms": 0, "cause": "member c3 joined"}
ROWS = [
    group_row("audit", members=9),
    group_row("billing", lag=506, lag_seconds=97.2, judgement="stalled", last_rebalance=JOINED),
    group_row("new", members=0, lag=None, lag_seconds=None, judgement=None),
    group_row("Shipping", lag=12, lag_seconds=1, judgement="behind"),
]


def order(sort: str, text: str = "") -> list[str]:
    return [row["group_id"] for row in GroupsWanted.parse(sort, text, lag=True).of(ROWS)]


def test_order_and_filter() -> None:
    assert order("name") == ["Shipping", "audit", "billing", "new"]
    assert order("lag") == ["billing", "Shipping", "audit", "new"], "the unknown comes last"
    assert order("members") == ["audit", "Shipping", "billing", "new"]
    assert order("name", "SHIP") == ["Shipping"]
    with pytest.raises(UsageError, match="--sort age: must be name, lag or members"):
        GroupsWanted.parse("age", "", lag=False)
    assert GroupsWanted.parse("lag", "", lag=False).lag, "to sort by it is to ask for it"


def test_what_people_see_of_a_group() -> None:
    assert group_cells(ROWS[1], 90_000) == {
        "group_id": "billing",
        "type": "consumer",
        "state": "Stable",
        "members": 2,
        "lag": 506,
        "lag time": "1 min 37 s",
        "judgement": "stalled",
        "last rebalance": "1 min 30 s ago",
        "cause": "member c3 joined",
    }
    old_daemon = {"group_id": "g", "type": "classic", "state": "Empty"}
    assert set(group_cells(old_daemon, 0).values()) == {"g", "classic", "Empty", "-"}


@pytest.fixture
def admin() -> Iterator[FakeAdmin]:
    with fake_admin({"/groups": sorted(ROWS, key=lambda row: row["group_id"])}) as fake:
        yield fake


def ran(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["groups", *arguments])
    printed = capsys.readouterr()
    assert ended.value.code == code, printed
    return printed.out if code == 0 else printed.err


def test_the_table(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    lines = ran(capsys, "list", "--admin", admin.address).splitlines()
    assert lines[0].split() == ["group_id", "type", "state"]
    assert len(lines) == 2 + len(ROWS)
    lines = ran(capsys, "list", "--sort", "lag", "--admin", admin.address).splitlines()
    assert "judgement" in lines[0]
    assert lines[2].startswith("billing")
    assert "member c3 joined" in lines[2]
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize("name", ["--format", "--output", "-o"])
def test_one_object_a_line(name: str, admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("list", "--filter", "bill", name, "json", "--admin", admin.address)
    assert json.loads(ran(capsys, *asked)) == {
        "group_id": "billing",
        "type": "consumer",
        "state": "Stable",
    }
    assert json.loads(ran(capsys, *asked, "--lag")) == ROWS[1]


def test_columns_that_nobody_has_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_admin({"/groups": []}) as none:
        assert ran(capsys, "list", "--lag", "--admin", none.address).startswith("group_id\n")
    row = {"group_id": "g", "type": "classic", "state": "Empty", "members": 0, "lag": 3}
    with fake_admin({"/groups": [row]}) as fake:
        head, *_ = ran(capsys, "list", "--lag", "--admin", fake.address).splitlines()
    assert head.split() == ["group_id", "type", "state", "members", "lag"]


def test_a_login_without_a_cluster_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["list"], ["describe", "g"]):
        told = ran(capsys, *command, "--command-config", "x", code=2)
        assert "--command-config is for a cluster" in told


def test_all_pages_are_read(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [group_row(f"g-{number:05}") for number in range(2500)]
    with fake_admin({"/groups": rows}) as fake:
        lines = ran(capsys, "list", "--admin", fake.address).splitlines()
    assert len(lines) == 2 + len(rows)
    assert sum(target.startswith("/groups") for target in fake.asked) == 3
