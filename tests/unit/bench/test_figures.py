"""Tables of the benchmarks."""

from __future__ import annotations

from tests.bench.figures import Workload, interleaved, spread, table


def test_peers_take_turns_and_one_that_cannot_is_left_alone() -> None:
    asked: list[str] = []

    def measure(peer: str) -> float | None:
        asked.append(peer)
        return None if peer == "b" else float(len(asked))

    assert interleaved(3, ["a", "b", "c"], measure) == {
        "a": [1.0, 5.0, 6.0],
        "b": [],
        "c": [3.0, 4.0, 7.0],
    }
    assert asked == ["a", "b", "c", "c", "a", "a", "c"]


def test_one_that_fails_as_foreseen_has_the_first_line_as_its_note() -> None:
    asked: list[str] = []
    notes = {"b": "as ever"}

    def measure(peer: str) -> float:
        asked.append(peer)
        if peer == "b":
            raise OSError("no such request\nand more")
        return 1.0

    assert interleaved(2, ["a", "b"], measure, notes, (OSError,)) == {"a": [1.0, 1.0], "b": []}
    assert notes == {"b": "cannot: no such request"}
    assert asked == ["a", "b", "a"]


def test_spread_is_all_of_few_and_the_middle_of_many() -> None:
    assert spread([3, 1, 2]) == (1, 3)
    assert spread([*range(101)]) == (10, 90)


def test_a_table_has_medians_ratios_and_who_cannot() -> None:
    samples = {"groupd": [10.0, 20.0, 30.0], "other": [50.0], "third": []}
    lines = table(Workload("Start", "ms", samples, {"other": "far"})).splitlines()
    assert lines[2] == "| peer | median | spread | times groupd | runs |"
    assert lines[4:] == [
        "| groupd | 20.0 | 10.0 to 30.0 |  | 3 |",
        "| other (far) | 50.0 | 50.0 to 50.0 | 2.50 | 1 |",
        "| third | cannot do this | | | 0 |",
    ]
