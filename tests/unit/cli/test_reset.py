"""What the flags of `groupd groups reset` and `groupd configs` mean."""

from __future__ import annotations

import pytest

from groupd.coordinator.cli.configs import ConfigPlace
from groupd.coordinator.cli.groups.moving import Topics, parse_to, parse_topics
from groupd.coordinator.cli.main import main
from groupd.coordinator.cli.parse import UsageError
from groupd.coordinator.moves.plan import ResetTarget, WantedReset

NOW_MS = 1_772_366_400_000


@pytest.mark.parametrize(
    ("text", "target", "amount"),
    [
        ("earliest", ResetTarget.EARLIEST, 0),
        ("latest", ResetTarget.LATEST, 0),
        ("offset:17", ResetTarget.OFFSET, 17),
        ("offset 17", ResetTarget.OFFSET, 17),
        ("shift:-5", ResetTarget.SHIFT, -5),
        ("shift +5", ResetTarget.SHIFT, 5),
        ("shift:5", ResetTarget.SHIFT, 5),
        ("now", ResetTarget.TIME, NOW_MS),
        ("-15m", ResetTarget.TIME, NOW_MS - 900_000),
        ("2026-03-01T12:00:00Z", ResetTarget.TIME, NOW_MS),
    ],
)
def test_where_to(text: str, target: ResetTarget, amount: int) -> None:
    assert parse_to(text, NOW_MS) == WantedReset(target, amount)


def test_to_another_group() -> None:
    assert parse_to("group:a:1", NOW_MS) == WantedReset(ResetTarget.GROUP, group_id="a:1")


@pytest.mark.parametrize(
    "text",
    ["", "first", "offset", "offset:-1", "offset:x", "shift:", f"offset:{2**63}", "17", "group:"],
)
def test_where_to_is_not_guessed(text: str) -> None:
    with pytest.raises(UsageError, match="--to"):
        parse_to(text, NOW_MS)


@pytest.mark.parametrize(
    ("texts", "topics"),
    [
        ([], {}),
        (["orders"], {"orders": None}),
        (["orders:0,1", "orders:3", "pay.eu"], {"orders": (0, 1, 3), "pay.eu": None}),
        (["orders:1", "orders"], {"orders": None}),
        (["orders", "orders:1"], {"orders": None}),
    ],
)
def test_which_partitions(texts: list[str], topics: Topics) -> None:
    assert parse_topics(texts) == topics


@pytest.mark.parametrize("text", ["", ":1", "orders:", "orders:a", "orders:1,", "a b"])
def test_partitions_are_not_guessed(text: str) -> None:
    with pytest.raises(UsageError, match="--topic"):
        parse_topics([text])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["groups", "reset", "g", "--to", "yesterday"], "--to yesterday: must be earliest"),
        (["configs", "set", "--entity", "topic", "t", "x"], "x: must be KEY=VALUE"),
        (["configs", "describe", "--entity", "user", "t"], "must be topic, broker or group"),
        (["configs", "describe", "--entity", "broker", "one"], "the id of a broker, a number"),
        (["configs", "describe", "--entity", "group", ""], "a name is needed"),
        (["topics", "list", "-o", "yaml"], "--format yaml: must be table or json"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line


def test_all_brokers_have_no_name() -> None:
    assert ConfigPlace.parse("broker", "", "h:1", None).own_source == "all brokers"
    assert ConfigPlace.parse("broker", "3", "h:1", None).own_source == "broker"
