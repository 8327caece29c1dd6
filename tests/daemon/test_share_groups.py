"""A share group as people see it: pages, commands, lag and metrics of a daemon with a real share
consumer."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from groupd.coordinator.cli.main import main
from tests.clients.share_scene import records_under_way
from tests.support.daemon import Daemon, ends_well
from tests.support.metrics import samples
from tests.support.peer import FAST_SETTINGS
from tests.support.process import wait_until

TIMEOUT_S = 30.0
GROUP = "parcels"
Run = Callable[..., str]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    directory = tmp_path_factory.mktemp("share")
    settings = {**FAST_SETTINGS, "groupd.lag.interval.ms": "100"}
    running = Daemon(directory / "daemon", topics={"orders": 1}, settings=settings)
    running.start()
    with ends_well(running):
        yield running


@pytest.fixture(scope="module")
def read(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    directory = tmp_path_factory.mktemp("member")
    with records_under_way(daemon.bootstrap, GROUP, "orders", directory):
        wait_until(lambda: row(daemon)["lag"] == 7, TIMEOUT_S, "the lag", daemon.logs)
        yield


@pytest.fixture
def run(daemon: Daemon, read: None, capsys: pytest.CaptureFixture[str]) -> Run:
    """`groupd groups ...`; what it prints."""

    def run(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["groups", *arguments, "--admin", daemon.admin_url.removeprefix("http://")])
        assert ended.value.code == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return run


def shown(daemon: Daemon, path: str) -> Any:
    with urllib.request.urlopen(f"{daemon.admin_url}{path}", timeout=TIMEOUT_S) as answer:
        return json.load(answer)


def row(daemon: Daemon) -> Any:
    return next(one for one in shown(daemon, "/groups") if one["group_id"] == GROUP)


def test_the_page_of_the_records(daemon: Daemon, read: None) -> None:
    page = shown(daemon, f"/groups/{GROUP}/share")
    (partition,) = page["partitions"]
    assert partition["start_offset"] == 2
    assert (partition["locked"], partition["finished"]) == (7, 1)
    assert [
        (one["first_offset"], one["last_offset"], one["state"], one["delivery_count"], one["why"])
        for one in partition["in_flight"]
    ] == [
        (2, 3, "acquired", 2, None),
        (4, 4, "archived", 1, "rejected"),
        (5, 9, "acquired", 2, None),
    ]
    assert len(partition["starts"]) == len(page["times_ms"]) == 60
    assert partition["starts"][-1] in (0, 2)


def test_lag_and_records_are_metrics(daemon: Daemon, read: None) -> None:
    found = {(one.name, one.labels.get("topic")): one.value for one in samples(daemon.admin_url)}
    assert found["kafka_consumergroup_lag", "orders"] == 7
    assert found["kafka_consumergroup_current_offset", "orders"] == 3
    assert found["kafka_server_sharepartitionmetrics_inflightmessagecount", "orders"] == 8
    assert found["groupd_share_start_offset", "orders"] == 2


def test_list_and_describe(run: Run) -> None:
    assert f"{GROUP}" in run("list", "--lag")
    found = run("describe", GROUP, "--wide")
    assert "type: share" in found
    assert "the start offset 2 waits for" in found
    assert "which has held offsets 2 to 3 for" in found
    held = [line.split()[:5] for line in found.partition("held records:")[2].splitlines()[3:5]]
    assert held == [["orders", "0", "2", "3", "2"], ["orders", "0", "5", "9", "2"]]
    assert "orders-0 offsets 2 to 3: delivered 2 times, at most 5" in found
    assert "orders-0 offset 4: rejected, delivered 1 times" in found
    fields = json.loads(run("describe", GROUP, "--format", "json"))
    assert fields["share"]["partitions"][0]["start_offset"] == 2


def test_why_and_watch(run: Run) -> None:
    why = run("why", GROUP, "--wide")
    assert "the start offset 2 waits for" in why
    assert "orders-0 offset 4: rejected" in why
    watched = run("watch", GROUP)
    assert watched.startswith(f"{GROUP}: share, Stable, 1 member, lag 7")
    assert "delivered again and again:" in watched


def test_history_tells_how_the_start_offset_was_moved(
    daemon: Daemon, read: None, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(*arguments: str) -> list[dict[str, Any]]:
        place = ("--data-dir", str(daemon.data_dir), "--format", "json")
        with pytest.raises(SystemExit) as ended:
            main(["groups", *arguments, *place])
        assert ended.value.code == 0, capsys.readouterr().err
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    moves = told("history", GROUP)
    assert [(one["topic"], one["partition"], one["kind"]) for one in moves[:1]] == [
        ("orders", 0, "first")
    ]
    (now,) = told("offsets", GROUP)
    assert (now["topic"], now["partition"], now["offset"]) == (
        "orders",
        0,
        moves[-1]["to"]["offset"],
    )
    before_ms = moves[0]["time_ms"] - 1
    assert told("offsets", GROUP, "--at", str(before_ms)) == []


def test_who_wants_to_restore_its_offsets_is_told_what_to_use(
    daemon: Daemon, read: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["groups", "restore", GROUP, "--at", "now", "--bootstrap", daemon.bootstrap])
    assert ended.value.code == 1
    assert capsys.readouterr().err == (
        f"groupd: group {GROUP} is a share group: its start offsets are set by "
        "`groupd groups reset`, or by kafka-share-groups\n"
    )
