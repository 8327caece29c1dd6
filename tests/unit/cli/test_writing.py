"""How the command line writes offsets: in parts, and it says what was written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
import typer

from groupd.coordinator.cli.groups import moving
from groupd.coordinator.cli.groups.moving import KafkaGroupOffsets, carry_out
from groupd.coordinator.cli.kafka import calls
from groupd.coordinator.cli.kafka.cluster import KafkaCluster
from groupd.coordinator.cli.kafka.connection import KafkaError
from groupd.coordinator.moves.mover import PART_PARTITIONS, PlannedMove
from groupd.coordinator.moves.plan import Current, MoveAction, MoveStep
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import TopicPartition

MANY = 2 * PART_PARTITIONS + 1


class Coordinator:
    """Keeps offsets. From request number `refuses` on it refuses everything with `error`, or
    `hangs_up`."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, committed: Mapping[TopicPartition, Current]
    ) -> None:
        self.committed = dict(committed)
        self.sizes: list[int] = []
        self.refuses = 100
        self.error = ErrorCode.UNKNOWN_MEMBER_ID
        self.hangs_up = False
        for name in ("commit_offsets", "delete_offsets", "fetch_offsets"):
            monkeypatch.setattr(calls, name, getattr(self, name))
        monkeypatch.setattr(moving, "list_groups", lambda _: {})

    async def write(self, wanted: Mapping[TopicPartition, Current | None]) -> None:
        """As `--apply` does, after a plan that wants these offsets; None: no offset."""
        steps = []
        for place, one in wanted.items():
            found = self.committed.get(place)
            before = None if found is None else found.offset
            if one is None:
                steps.append(MoveStep(*place, MoveAction.DELETE, before, None))
            else:
                fields = (one.offset, one.leader_epoch, one.metadata)
                steps.append(MoveStep(*place, MoveAction.COMMIT, before, *fields))
        group = KafkaGroupOffsets(cast(KafkaCluster, self), "g")
        await carry_out(group, PlannedMove(steps, ""), apply=True)

    def coordinator(self, group_id: str) -> Any:
        """This stands for the cluster, too."""

    def commit_offsets(
        self, _: Any, group: str, part: Mapping[TopicPartition, Current]
    ) -> dict[TopicPartition, ErrorCode]:
        return self._answer(list(part), dict(part))

    def delete_offsets(
        self, _: Any, group: str, part: Sequence[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        return self._answer(part, {})

    def fetch_offsets(self, _: Any, group: str) -> dict[TopicPartition, Current]:
        return dict(self.committed)

    def _answer(
        self, places: Sequence[TopicPartition], new: Mapping[TopicPartition, Current]
    ) -> dict[TopicPartition, ErrorCode]:
        self.sizes.append(len(places))
        if len(self.sizes) >= self.refuses:
            if self.hangs_up:
                raise KafkaError("it did not answer")
            return dict.fromkeys(places, self.error)
        for place in places:
            self.committed.pop(place, None)
        self.committed |= new
        return dict.fromkeys(places, ErrorCode.NONE)


def places(count: int) -> list[TopicPartition]:
    return [("t", number) for number in range(count)]


async def test_offsets_are_committed_and_deleted_in_parts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    coordinator = Coordinator(monkeypatch, dict.fromkeys(places(2 * MANY), Current(5)))
    wanted: dict[TopicPartition, Current | None] = dict.fromkeys(places(2 * MANY))
    wanted |= dict.fromkeys(places(MANY), Current(7, 1, "m"))
    await coordinator.write(wanted)
    assert coordinator.sizes == [PART_PARTITIONS, PART_PARTITIONS, 1] * 2
    assert coordinator.committed == dict.fromkeys(places(MANY), Current(7, 1, "m"))
    assert f"{2 * MANY} offsets written and read back" in capsys.readouterr().err


async def test_a_refusal_half_way_says_what_was_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    coordinator = Coordinator(monkeypatch, {})
    coordinator.refuses = 2
    with pytest.raises(typer.Exit) as ended:
        await coordinator.write(dict.fromkeys(places(MANY), Current(7)))
    assert ended.value.exit_code == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"groupd: {PART_PARTITIONS} of {MANY} partitions refused, such as t-{PART_PARTITIONS}: "
        f"UNKNOWN_MEMBER_ID. {PART_PARTITIONS} have been written, 1 not tried"
    )


@pytest.mark.parametrize("hangs_up", [False, True])
async def test_what_may_have_been_written_is_not_called_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, hangs_up: bool
) -> None:
    coordinator = Coordinator(monkeypatch, {})
    coordinator.refuses, coordinator.hangs_up = 2, hangs_up
    coordinator.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    with pytest.raises(typer.Exit) as ended:
        await coordinator.write(dict.fromkeys(places(PART_PARTITIONS + 1), Current(7)))
    assert ended.value.exit_code == 1
    told = capsys.readouterr().err
    error = "NETWORK_EXCEPTION" if hangs_up else "COORDINATOR_NOT_AVAILABLE"
    assert "refused" not in told
    assert ("it did not answer" in told) is hangs_up
    assert told.splitlines()[-1] == (
        f"groupd: 1 of {PART_PARTITIONS + 1} partitions may have been written, such as "
        f"t-{PART_PARTITIONS}: {error}. {PART_PARTITIONS} have been written"
    )


async def test_what_is_read_back_must_be_the_same_with_metadata(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    coordinator = Coordinator(monkeypatch, {("t", 2): Current(1)})
    found = {("t", 0): Current(7), ("t", 1): Current(7, 0, "other"), ("t", 2): Current(1)}
    looks = iter((coordinator.committed, found))
    monkeypatch.setattr(calls, "fetch_offsets", lambda *_: dict(next(looks)))
    wanted: dict[TopicPartition, Current | None] = dict.fromkeys(places(2), Current(7))
    with pytest.raises(typer.Exit):
        await coordinator.write({**wanted, ("t", 2): None})
    told = capsys.readouterr().err
    assert "t-0" not in told
    assert "t-1 is not at 7" in told
    assert "t-2 still has an offset" in told
    assert "somebody has moved 2 of them since, such as t-1" in told
    assert coordinator.sizes == [2, 1]
