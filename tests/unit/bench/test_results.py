"""What the suite keeps, and what it makes of it."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.bench import page, plots
from tests.bench.figures import Workload
from tests.bench.page import BEGIN, END, advantage, slug, write_page
from tests.bench.results import Measured, Results, Run, load

FIRST = Run("first", "a machine", "1 May", False, "v1", {"kfake": "2"})
SECOND = Run("second", "a machine", "2 May", True, "v2", {})


def workload(name: str, ours: float, theirs: float | None, **fields: object) -> Workload:
    samples = {"groupd": [ours], "kfake": [] if theirs is None else [theirs]}
    return Workload(name, "s", samples, **fields)  # type: ignore[arg-type]


def test_a_later_run_replaces_its_workloads_and_no_others(tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.json"
    kept = Results()
    kept.add(Measured("c", workload("one", 1, 2), FIRST))
    kept.add(Measured("c", workload("one", 7, 8, measure="CPU of the peer"), FIRST))
    kept.add(Measured("a", workload("two", 3, None, notes={"kfake": "no"}), FIRST))
    kept.save(path)
    again = load(path)
    again.add(Measured("c", workload("one", 5, 6), SECOND))
    again.save(path)
    assert [(m.workload.title, m.workload.samples, m.run) for m in load(path).measured] == [
        ("one", {"groupd": [5], "kfake": [6]}, SECOND),
        ("one: CPU of the peer", {"groupd": [7], "kfake": [8]}, FIRST),
        ("two", {"groupd": [3], "kfake": []}, FIRST),
    ]
    assert load(tmp_path / "none.json").measured == []


@pytest.mark.parametrize(
    ("ours", "theirs", "higher", "expected"),
    [(200, 100, True, "2.00"), (200, 100, False, "0.50"), (1, None, False, "-")],
)
def test_an_advantage_is_above_one_where_groupd_is_ahead(
    ours: float, theirs: float | None, higher: bool, expected: str
) -> None:
    assert advantage(workload("w", ours, theirs, higher_is_better=higher), "kfake") == expected


def test_the_page_keeps_what_is_written_by_hand(tmp_path: Path) -> None:
    docs = tmp_path / "benchmarks.md"
    docs.write_text(f"by hand\n{BEGIN}\nold\n{END}\nalso by hand\n")
    images = tmp_path / page.IMAGES
    images.mkdir(parents=True)
    (images / "gone.svg").write_text("")
    results = Results()
    for size in (100, 1_000):
        name = f"Beats, {size:,} members"
        results.add(Measured("a", workload(name, 1, 2, figure="Beats", size=size), FIRST))
    results.add(Measured("ef", workload("Storm", 1, None, notes={"kfake": "cannot: no"}), SECOND))
    write_page(results, tmp_path)
    text = docs.read_text()
    assert text.startswith(f"by hand\n{BEGIN}\n")
    assert text.endswith(f"{END}\nalso by hand\n")
    assert "old" not in text
    assert "| Beats, 1,000 members | 1.00 s | 2.00 |" in text
    assert "| kfake | cannot: no | |" in text
    assert "**A quick run" in text.partition("(e), (f)")[2]
    assert "**A quick run" not in text.partition("(e), (f)")[0]
    assert sorted(path.name for path in images.iterdir()) == ["beats.svg", "storm.svg"]
    docs.write_text("no markers")
    with pytest.raises(ValueError, match="markers"):
        write_page(results, tmp_path)


def test_every_row_of_a_summary_has_a_cell_for_each_head(tmp_path: Path) -> None:
    docs = tmp_path / "benchmarks.md"
    for samples in ({"groupd": [1.0]}, {"groupd": [1.0], "kfake": [2.0]}):
        docs.write_text(f"{BEGIN}\n{END}\n")
        results = Results()
        results.add(Measured("j", Workload("alone", "s", samples), FIRST))
        write_page(results, tmp_path)
        summary = docs.read_text().partition("<details>")[0]
        rows = [line for line in summary.splitlines() if line.startswith("|")]
        assert {row.count("|") for row in rows} == {len(samples) + 2}
        assert len(rows) == 3


def test_a_plot_has_lines_over_sizes_and_bars_of_one_size() -> None:
    lines = {
        "groupd": [plots.Point(100, 1, 1, 1), plots.Point(10_000, 2, 1, 3)],
        "kfake": [plots.Point(100, 900, 800, 1000)],
        "Tansu": [],
    }
    document = plots.svg("A < B", [plots.Panel("seconds", lines)])
    root = ElementTree.fromstring(document)
    tags = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert tags.count("polyline") == 2
    assert tags.count("circle") == 3
    bars = {peer: points[:1] for peer, points in lines.items()}
    root = ElementTree.fromstring(plots.svg("bars", [plots.Panel("seconds", bars)]))
    rows = [e for e in root.iter() if e.tag.endswith("rect") and e.get("height") == "16"]
    widths = [float(row.get("width", "0")) for row in rows]
    assert widths[0] / widths[1] == pytest.approx(1 / 900, abs=0.001)
    assert "cannot" in {e.text for e in root.iter()}


@pytest.mark.parametrize(
    ("value", "expected"), [(0.9, 1), (1, 1), (3, 5), (70, 100), (0.012, 0.02)]
)
def test_ticks_are_round(value: float, expected: float) -> None:
    assert plots.nice(value) == pytest.approx(expected)


def test_a_file_name_keeps_numbers_together() -> None:
    assert slug("Beats, 1,000 members (quick)") == "beats-1000-members-quick"
