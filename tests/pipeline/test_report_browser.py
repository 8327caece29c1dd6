"""The page in a real browser: it runs without complaint, and does what it offers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from groupd.pipeline.report.page import render
from tests.support.browser import Browser, running_browser
from tests.support.report_page import HOSTILE, report

DRAWN = "return document.querySelectorAll('#g1 svg .line').length > 0"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with running_browser(tmp_path_factory.mktemp("browser") / "profile") as running:
        yield running


def opened(browser: Browser, directory: Path, text: str) -> None:
    page = directory / "report.html"
    page.write_text(text, encoding="utf-8")
    browser.open(page)
    browser.wait(DRAWN)


def test_it_runs_without_a_word_on_the_console(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, render(report(["billing", "search"])))
    assert browser.run("return document.querySelectorAll('#g1 figure svg').length") == 4
    assert browser.run("return document.querySelectorAll('#g1 .fence').length") == 1
    assert browser.run("return document.querySelectorAll('#g1 .own').length") == 3
    assert browser.run("return document.querySelectorAll('#g1 .thin.hot').length") == 1
    assert browser.messages() == []


def test_hostile_names_run_nothing(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, render(report([HOSTILE], note=HOSTILE)))
    assert browser.run("return document.title").startswith("Consumer groups: ")
    hover(browser, "lanes", 30)
    assert HOSTILE in browser.run("return document.getElementById('tip').textContent")
    browser.run("document.querySelector('#g1-lanes details').open = true")
    browser.wait("return document.querySelectorAll('#g1-lanes details td').length > 0")
    assert browser.run("return document.querySelectorAll('img').length") == 0
    assert browser.messages() == []


def hover(browser: Browser, chart: str, y: int) -> None:
    browser.run(
        """const plot = document.querySelector(`#g1-${arguments[0]} .plot`);
        const box = plot.getBoundingClientRect();
        plot.dispatchEvent(new PointerEvent('pointermove', {clientX: box.left + box.width / 2,
          clientY: box.top + arguments[1], bubbles: true}));""",
        chart,
        y,
    )


def test_tooltips_tables_and_keys_say_what_the_charts_show(
    browser: Browser, tmp_path: Path
) -> None:
    opened(browser, tmp_path, render(report()))
    hover(browser, "ownership", 12)
    assert "worker-a" in browser.run("return document.getElementById('tip').textContent")
    browser.run("document.querySelector('#g1-lag .plot').focus()")
    browser.run(
        """const plot = document.querySelector('#g1-lag .plot');
        for (const key of ['ArrowRight', '+', '+'])
          plot.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));"""
    )
    assert "Lag, all partitions" in browser.run("return document.getElementById('tip').textContent")
    assert "30 min" in browser.run("return document.querySelector('#g1 .range').textContent")
    browser.run("document.querySelector('#g1 .reset').click()")
    assert browser.run("return document.querySelector('#g1 .range').textContent") == ""
    for chart, rows in (("lag", 12), ("rate", 12), ("lanes", 2), ("ownership", 3)):
        browser.run(f"document.querySelector('#g1-{chart} details').open = true")
        script = f"return document.querySelectorAll('#g1-{chart} details tbody tr').length"
        browser.wait(f"{script} === {rows}")
    assert browser.messages() == []


def test_a_link_to_evidence_goes_there_and_zooms(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, render(report(["billing", "search"])))
    browser.run("document.querySelector('#overview a[data-group=\"g2\"]').click()")
    browser.wait("return location.hash === '#g2-lag'")
    # An hour, and a quarter of it on both sides.
    browser.wait("return document.querySelector('#g2 .range').textContent.includes('1 h 30 min')")
    assert browser.run("return document.querySelector('#g1 .range').textContent") == ""
    assert browser.messages() == []


def test_the_filter_and_the_theme(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, render(report(["billing", "search"])))
    browser.run(
        """const filter = document.getElementById('filter'); filter.value = 'SEAR';
        filter.dispatchEvent(new Event('input'));"""
    )
    assert browser.run("return document.getElementById('g1').hidden") is True
    assert browser.run("return document.getElementById('g2').hidden") is False
    light = browser.run("return getComputedStyle(document.body).backgroundColor")
    browser.run("const b = document.getElementById('theme'); b.click(); b.click();")
    assert browser.run("return document.getElementById('theme').textContent") == "Theme: dark"
    assert browser.run("return getComputedStyle(document.body).backgroundColor") != light
    assert browser.messages() == []


SHADOWS = """const style = getComputedStyle(document.querySelector('.scroll'));
    return [style.backgroundAttachment, style.backgroundImage.split('rgba').length > 4]"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_wide_tables_say_that_they_scroll_and_do_by_keyboard(
    browser: Browser, tmp_path: Path, theme: str
) -> None:
    opened(browser, tmp_path, render(report()))
    browser.run("document.documentElement.dataset.theme = arguments[0]", theme)
    hidden = "return [...document.querySelectorAll('.hint')].map((hint) => hint.hidden)"
    try:
        browser.resize(1280, 900)
        browser.wait(f"return (() => {{ {hidden} }})().every((hidden) => hidden)")
        browser.resize(380, 800)
        browser.wait(f"return (() => {{ {hidden} }})().every((hidden) => !hidden)")
        assert browser.run("return document.documentElement.scrollWidth") == 380
        hint = browser.run("return document.querySelector('.hint').textContent")
        assert hint.startswith("This table is wider than the page: scroll sideways")
        assert browser.run(SHADOWS) == ["local, local, scroll, scroll", True]
        browser.run("document.querySelector('#g1-lag details').open = true")
        browser.wait("return document.querySelector('#g1-lag .scroll') !== null")
        boxes = browser.run(
            """return [...document.querySelectorAll('.scroll')].map(
              (box) => [box.getAttribute('role'), box.tabIndex, box.getAttribute('aria-label')])"""
        )
        labels = ["Groups", "Lag of billing", "Rebalances of billing"]
        assert boxes == [["region", 0, label] for label in labels]
        browser.run("document.querySelector('.scroll').focus()")
        for kind in ("rawKeyDown", "keyUp"):
            browser.devtools(
                "Input.dispatchKeyEvent",
                {"type": kind, "key": "ArrowRight", "windowsVirtualKeyCode": 39},
            )
        browser.wait("return document.querySelector('.scroll').scrollLeft > 0")
        assert browser.messages() == []
    finally:
        browser.resize(1440, 1000)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(
    browser: Browser, tmp_path: Path, theme: str
) -> None:
    """WCAG AA: 4.5 to 1."""
    opened(browser, tmp_path, render(report()))
    browser.run("document.documentElement.dataset.theme = arguments[0]", theme)
    low = browser.run(
        """const level = (value) =>
          value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
        const light = (rgb) => { const [r, g, b] = rgb.match(/[\\d.]+/g).map(Number);
          return 0.2126 * level(r / 255) + 0.7152 * level(g / 255) + 0.0722 * level(b / 255); };
        const behind = (node) => { for (; node; node = node.parentElement) {
          const color = getComputedStyle(node).backgroundColor;
          if (!/rgba.*, 0(\\.\\d+)?\\)$/.test(color)) return color; }
          return 'rgb(255, 255, 255)'; };
        const low = [];
        const kinds = 'h1, h2, h3, p, b, span, td, th, a, summary, .tick';
        for (const node of document.querySelectorAll(kinds)) {
          if (!node.textContent.trim() || node.closest('[hidden]')) continue;
          const style = getComputedStyle(node);
          const ink = node.namespaceURI.endsWith('svg') ? style.fill : style.color;
          const [a, b] = [light(ink), light(behind(node.closest('div, td, li, section') || node))];
          const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
          if (ratio < 4.5) low.push(`${node.textContent.slice(0, 30)} ${ratio.toFixed(2)}`);
        }
        return low;"""
    )
    assert low == []
