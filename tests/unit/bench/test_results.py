"""What the suite keeps, and what it makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.bench import page, plots
from tests.bench.figures import Workload
from tests.bench.page import BEGIN, END, advantage, slug, write_page
from tests.bench.results import IN_THE_TREE, Measured, Results, Run, load, measured

FIRST = Run("first", "a machine", "1 May", False, "v1", {"kfake": "2"})
SECOND = Run("second", "a machine", "2 May", True, "v2", {})


def kept(
    part: str, run: Run, name: str, ours: float, theirs: float | None, **more: Any
) -> Measured:
    samples = {"groupd": [ours], "kfake": [] if theirs is None else [theirs]}
    return measured(part, Workload(name, "s", samples, **more), run)


def test_a_later_run_replaces_its_workloads_and_no_others(tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.json"
    results = Results()
    results.add(kept("c", FIRST, "one", 1, 2))
    results.add(kept("c", FIRST, "one", 7, 8, measure="CPU of the peer"))
    results.add(kept("a", FIRST, "two", 3, None, notes={"kfake": "no"}))
    results.save(path)
    again = load(path)
    again.add(kept("c", SECOND, "one", 5, 6))
    again.save(path)
    found = load(path).measured
    assert [(one.title, one.run) for one in found] == [
        ("one", SECOND),
        ("one: CPU of the peer", FIRST),
        ("two", FIRST),
    ]
    assert found[0].figures == {"groupd": (5, 5, 5, 1), "kfake": (6, 6, 6, 1)}
    assert found[2].figures["kfake"] is None
    assert found[2].notes == {"kfake": "no"}
    assert load(tmp_path / "none.json").measured == []


def test_the_file_has_a_line_for_each_workload_with_median_and_spread(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    results = Results()
    results.add(measured("a", Workload("w", "s", {"groupd": [1, 2, 30.123456]}), FIRST))
    results.save(path)
    (line,) = [line for line in path.read_text().splitlines() if '"name": "w"' in line]
    assert '"figures": {"groupd": [2.0, 1.0, 30.12, 3]}' in line


@pytest.mark.parametrize(
    ("ours", "theirs", "higher", "expected"),
    [(200, 100, True, 2), (200, 100, False, 0.5), (1, None, False, None)],
)
def test_an_advantage_is_above_one_where_groupd_is_ahead(
    ours: float, theirs: float | None, higher: bool, expected: float | None
) -> None:
    one = kept("a", FIRST, "w", ours, theirs, higher_is_better=higher)
    assert advantage(one, "kfake") == expected


def test_the_page_keeps_what_is_written_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "PICTURES", ("Beats", "Storm"))
    docs = tmp_path / "benchmarks.md"
    docs.write_text(f"by hand\n{BEGIN}\nold\n{END}\nalso by hand\n")
    images = tmp_path / page.IMAGES
    images.mkdir(parents=True)
    (images / "gone.svg").write_text("")
    results = Results()
    for size in (100, 1_000):
        results.add(kept("a", FIRST, f"Beats, {size:,} members", 1, 2, figure="Beats", size=size))
    results.add(kept("ef", SECOND, "Storm", 1, None, notes={"kfake": "cannot: no"}))
    results.add(kept("ef", SECOND, "Storm of two", 1, 4))
    results.add(kept("ef", SECOND, "Storm of two", 1, 4, measure="99th percentile"))
    results.add(kept("i", FIRST, "uniform: CPU", 1, 4))
    write_page(results, tmp_path)
    text = docs.read_text()
    assert text.startswith(f"by hand\n{BEGIN}\n")
    assert text.endswith(f"{END}\nalso by hand\n")
    assert "old" not in text
    assert "| Beats, 1,000 members | s | 1.00 | 2.00 (2) | v1 |" in text
    assert "| Storm | s | 1.00 | cannot | v2 |" in text
    assert "| Storm of two | s | 1.00 | 4.00 (4) | v2 |" in text
    assert "percentile" not in text
    assert "uniform" not in text
    assert "| v2 | **Quick: its figures mean nothing.** 2 May | a machine | `second` |" in text
    assert "**Quick" not in text.partition("### Runs")[0]
    assert sorted(path.name for path in images.iterdir()) == ["beats.svg", "storm.svg"]
    docs.write_text("no markers")
    with pytest.raises(ValueError, match="markers"):
        write_page(results, tmp_path)


def test_every_row_has_a_cell_for_each_head() -> None:
    for samples in ({"groupd": [1.0]}, {"groupd": [1.0], "kfake": [2.0]}):
        results = Results()
        results.add(measured("j", Workload("alone", "s", samples), FIRST))
        table = page.section(results).partition("### Runs")[0]
        rows = [line for line in table.splitlines() if line.startswith("|")]
        assert {row.count("|") for row in rows} == {len(samples) + 4}
        assert len(rows) == 3


def test_the_page_and_its_pictures_are_those_of_the_results_in_the_tree() -> None:
    results = load(IN_THE_TREE)
    docs = IN_THE_TREE.parent
    assert f"{BEGIN}\n\n{page.section(results)}\n{END}" in (docs / "benchmarks.md").read_text()
    kept = {path.name: path.read_text() for path in (docs / page.IMAGES).glob("*.svg")}
    assert kept == page.pictures(results), "of the workloads that are drawn, those in the tree"


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
