"""The page of the report: whole, closed to the world, and safe with whatever it is given."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from groupd.pipeline.cli import main
from groupd.pipeline.report import page as page_module
from groupd.pipeline.report.model import SharePart
from groupd.pipeline.report.page import render
from groupd.pipeline.report.pieces import data, own_text, spark, tag
from groupd.pipeline.report.share_section import SECTION
from tests.support.report_page import END_MS, HOSTILE, START_MS, Page, at, report


def test_it_is_whole_and_has_what_is_known() -> None:
    page = Page(render(report(["billing", "search"])))
    assert page.unclosed == []
    assert len(page.ids) == len(set(page.ids))
    text = " ".join(page.text)
    for wanted in ("billing", "search", "Stuck partition", "orders-1 stands", "48 k", "expiry"):
        assert wanted in text
    assert page.json["report-data"] == {"start": START_MS, "end": END_MS, "steps": 12}
    shown = page.json["g1-data"]
    assert shown["lag"]["total"] == [step * 10 for step in range(12)]
    assert shown["rate"]["total"][0] is None
    assert shown["lanes"] == ["worker-a", "worker-b"]
    assert [life["endedBy"] for life in shown["lives"]] == [None, "expired"]
    assert shown["holdings"] == [
        [0, 0, at(0), None],
        [1, 1, at(1), at(60)],
        [1, 0, at(62), None],
    ]
    assert shown["marks"] == [[at(0), at(1)], [at(60), at(62)]]
    assert [one["partition"] for one in shown["findings"]] == [1, None]


def test_share_groups_are_tables() -> None:
    page = Page(render(report()))
    for wanted in ("orders-0", "39 – 44", "archived", "1 min 30 s", "38"):
        assert wanted in page.text
    assert any("12 share-partitions with fewer" in text for text in page.text)
    without = Page(render(replace(report(), shares=SharePart())))
    assert SECTION not in without.ids
    assert f"#{SECTION}" not in {link["href"] for link in without.all("a")}


def test_every_link_leads_to_something_on_the_page() -> None:
    page = Page(render(report(["billing", "search"], rows=30)))
    targets = [link["href"] or "" for link in page.all("a")]
    assert {"#g1-lag", "#g1-rebalances", "#g2-lag", "#overview"} <= set(targets)
    assert {target.removeprefix("#") for target in targets} <= set(page.ids)
    assert all(target.startswith("#") for target in targets)
    groups = {link["data-group"] for link in page.all("a") if "data-group" in link}
    assert groups == {"g1", "g2"}


def test_nothing_comes_from_elsewhere() -> None:
    text = render(report())
    assert not re.search(r"(src|href|action|data)\s*=\s*[\"']?(https?:)?//", text)
    assert not re.search(r"@import|url\((?!#)", text)
    page = Page(text)
    outward = {"src", "srcset", "action", "formaction", "ping", "poster", "background"}
    assert not [a for _, a in page.elements if outward & set(a)]
    assert not {"link", "iframe", "object", "embed", "base", "form", "img"} & {
        name for name, _ in page.elements
    }
    # Names of namespaces are no addresses that anybody asks.
    names = {"2000/svg", "1999/xhtml", "1998/Math/MathML"}
    found = set(re.findall(r"https?://[^\s\"'`]+", text))
    assert found <= {f"http://www.w3.org/{name}" for name in names}


def test_the_policy_allows_this_script_and_this_style_and_nothing_else() -> None:
    text = render(report())
    policy = next(m["content"] for m in Page(text).all("meta") if "http-equiv" in m)
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    for name in ("style", "script"):
        found = re.search(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)
        assert found is not None
        digest = base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_hostile_names_are_text_everywhere() -> None:
    safe, hostile = Page(render(report())), Page(render(report([HOSTILE], note=HOSTILE)))
    # Not one element or attribute more than a harmless report has.
    assert [name for name, _ in hostile.elements] == [name for name, _ in safe.elements]
    assert [sorted(a) for _, a in hostile.elements] == [sorted(a) for _, a in safe.elements]
    assert hostile.ids == safe.ids
    assert sum(HOSTILE in text for text in hostile.text) >= 5
    shown = hostile.json["g1-data"]
    assert shown["lanes"] == [f"worker-a{HOSTILE}", f"worker-b{HOSTILE}"]
    assert shown["places"][0] == [f"orders{HOSTILE}", 0]


@pytest.mark.parametrize(
    "text", [HOSTILE, "]]>", "\u2028", "a\x00b", "\ud83d\ude00é", "<!--<script>"]
)
def test_data_cannot_leave_its_element(text: str) -> None:
    element = data({"name": text, text: [text]}, id="d").html
    assert not re.search(
        r"[<>&\u2028\u2029]",
        element[len('<script type="application/json" id="d">') : -len("</script>")],
    )
    assert Page(element).json["d"] == {"name": text, text: [text]}


def test_markup_escapes_text_and_attributes() -> None:
    made = tag("p", "<b>", [tag("i", "&"), None, 3], title='"<', hidden=False, class_="a").html
    assert made == '<p title="&quot;&lt;" class="a">&lt;b&gt;<i>&amp;</i>3</p>'
    with pytest.raises(ValueError, match="script"):
        own_text("script", "x = '</SCRIPT>'")


def test_a_thousand_groups_make_a_page_of_bounded_size() -> None:
    text = render(report([f"group-{number}" for number in range(30)], rows=1000))
    assert len(Page(text).json) == 31
    assert len(text) < 1_500_000


def test_a_small_line_has_a_gap_where_nothing_is_known() -> None:
    made = spark([0.0, 4.0, None, 4.0, 2.0])
    assert made is not None
    assert 'd="M0.0 18.0L33.0 2.0M99.0 2.0L132.0 10.0"' in made.html
    assert spark([None, 1.0]) is None


def test_a_log_without_findings_says_so() -> None:
    empty = report([], rows=3)
    text = " ".join(Page(render(empty)).text)
    assert "Nothing was found that needs attention." in text
    assert "g-2" in text


def test_charts_have_places_and_tables_have_headers() -> None:
    page = Page(render(report()))
    figures = page.all("figure")
    assert [a["data-chart"] for a in figures] == ["lag", "rate", "lanes", "ownership"]
    places = [a for a in page.all("div") if a.get("class") == "place"]
    assert len(places) == len(figures)
    assert all(a["data-label"] and a["data-title"] for a in places)
    assert all(a["scope"] == "col" for a in page.all("th"))
    html = page.all("html")[0]
    assert html["lang"] == "en"


def test_the_licences_of_what_the_page_contains_are_in_it() -> None:
    text = render(report())
    assert "Jason Miller" in text
    assert "Leon Sorokin" in text
    assert text.count("Permission is hereby granted") == 2


def test_without_its_parts_the_command_ends_before_it_starts_spark(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(page_module, "built_files", dict)
    with pytest.raises(SystemExit) as ended:
        main(["report", "--segments", str(tmp_path), "--out", str(tmp_path / "report.html")])
    assert ended.value.code == 1
    told = capsys.readouterr().err
    assert told == (
        "groupd-pipeline: this installation cannot make the page: it was made without npm. Install "
        "npm and then groupd again (in a checkout: `make report`), or install groupd from a wheel\n"
    )
    assert list(tmp_path.iterdir()) == []
