"""The page in a real browser: it runs without complaint, and does what it offers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from groupd.pipeline.report.page import render
from tests.support.browser import Browser, running_browser
from tests.support.process import wait_until
from tests.support.report_page import HOSTILE, report

DRAWN = """return document.querySelectorAll('#g1 canvas').length === 2
    && document.querySelector('#g1-ownership svg .own') !== null"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with running_browser(tmp_path_factory.mktemp("browser") / "profile") as running:
        yield running


def opened(browser: Browser, directory: Path, text: str) -> None:
    page = directory / "report.html"
    page.write_text(text, encoding="utf-8")
    browser.open(page)
    # The page before may have left a theme.
    browser.run("localStorage.clear()")
    browser.open(page)
    browser.wait(DRAWN)


def test_it_runs_without_a_word_on_the_console(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, render(report(["billing", "search"])))
    drawn = "return document.querySelectorAll('#g1 figure :is(canvas, svg.over-time)').length"
    assert browser.run(drawn) == 4
    assert browser.run("return document.querySelectorAll('#g1 .fence').length") == 1
    assert browser.run("return document.querySelectorAll('#g1 .own').length") == 3
    assert browser.run("return document.querySelectorAll('#g1 .band.warning').length") == 1
    assert browser.messages() == []


def painted(browser: Browser, chart: str, colour: str, below: int = 0) -> int:
    """How many pixels of a chart on canvas have a colour of the theme, with all or nearly all of
    its strength. `below`: so many pixels at the top are left out."""
    return int(
        browser.run(
            """const canvas = document.querySelector(`#g1-${arguments[0]} canvas`);
            const probe = document.createElement('i');
            probe.style.color = `var(${arguments[1]})`;
            document.body.append(probe);
            const wanted = getComputedStyle(probe).color.match(/\\d+/g).map(Number);
            probe.remove();
            // The browser complains about repeated reading from a canvas that is not made for it.
            const copy = new OffscreenCanvas(canvas.width, canvas.height)
              .getContext('2d', { willReadFrequently: true });
            copy.drawImage(canvas, 0, 0);
            const { data } = copy
              .getImageData(0, arguments[2], canvas.width, canvas.height - arguments[2]);
            let found = 0;
            for (let at = 0; at < data.length; at += 4)
              if (data[at + 3] > 230 && wanted.every((one, i) => Math.abs(data[at + i] - one) < 9))
                found++;
            return found;""",
            chart,
            colour,
            below,
        )
    )


def test_lines_and_findings_are_painted_in_the_colours_of_the_theme(
    browser: Browser, tmp_path: Path
) -> None:
    opened(browser, tmp_path, render(report()))
    # The line of the partition with the finding, and the edge along the finding: half of the time.
    line = painted(browser, "lag", "--stalled", below=40)
    assert line > 100
    assert painted(browser, "lag", "--stalled") > line + 600
    assert painted(browser, "lag", "--accent") > 200
    assert painted(browser, "rate", "--stalled") == 0
    assert painted(browser, "rate", "--ok") > 200
    light = painted(browser, "rate", "--ok")
    browser.run("const b = document.getElementById('theme'); b.click(); b.click();")
    browser.wait("return document.documentElement.dataset.theme === 'dark'")
    # The same line in another colour, once the chart has been drawn anew.
    wait_until(
        lambda: painted(browser, "rate", "--ok") == pytest.approx(light, rel=0.3),
        20,
        "other colour",
    )
    assert browser.messages() == []


def test_hostile_names_run_nothing(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, render(report([HOSTILE], note=HOSTILE)))
    assert browser.run("return document.title").startswith("Consumer groups: ")
    hover(browser, "lanes", 30)
    assert HOSTILE in tip(browser, "lanes")
    browser.run("document.querySelector('#g1-lanes details').open = true")
    browser.wait("return document.querySelectorAll('#g1-lanes details td').length > 0")
    assert browser.run("return document.querySelectorAll('img').length") == 0
    assert browser.messages() == []


def tip(browser: Browser, chart: str) -> str:
    browser.wait(f"return !document.querySelector('#g1-{chart} .tip').hidden")
    return str(browser.run(f"return document.querySelector('#g1-{chart} .tip').textContent"))


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
    assert "worker-a" in tip(browser, "ownership")
    assert browser.run("return document.querySelectorAll('#g1 .time-cursor').length") == 4
    browser.run("document.querySelector('#g1-lag .plot').focus()")
    browser.run(
        """const plot = document.querySelector('#g1-lag .plot');
        for (const key of ['ArrowRight', '+', '+'])
          plot.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));"""
    )
    assert "Lag, all partitions" in tip(browser, "lag")
    assert "30 min" in browser.run("return document.querySelector('#g1 .range').textContent")
    browser.run("document.querySelector('#g1 .reset').click()")
    assert browser.run("return document.querySelector('#g1 .range').textContent") == ""
    for chart, rows in (("lag", 12), ("rate", 12), ("lanes", 2), ("ownership", 3)):
        browser.run(f"document.querySelector('#g1-{chart} details').open = true")
        script = f"return document.querySelectorAll('#g1-{chart} details tbody tr').length"
        browser.wait(f"{script} === {rows}")
    assert browser.messages() == []


def test_every_chart_has_a_name_and_a_table_and_can_be_reached(
    browser: Browser, tmp_path: Path
) -> None:
    opened(browser, tmp_path, render(report()))
    plots = browser.run(
        """return [...document.querySelectorAll('#g1 figure .plot')].map(
          (plot) => [plot.getAttribute('role'), plot.tabIndex, plot.getAttribute('aria-label')])"""
    )
    assert len(plots) == 4
    assert all(one[:2] == ["img", 0] and "billing" in one[2] for one in plots)
    assert browser.run("return document.querySelectorAll('#g1 figure details').length") == 4


def test_down_and_up_go_through_the_lanes(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, render(report()))
    keys = """const plot = document.querySelector('#g1-lanes .plot'); plot.focus();
        for (const key of arguments[0])
          plot.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));"""
    for pressed, wanted in (
        (["ArrowRight"], "Rebalances here"),
        (["ArrowDown"], "worker-a"),
        (["ArrowDown", "ArrowDown"], "worker-b"),
        (["ArrowUp"], "worker-a"),
    ):
        browser.run(keys, pressed)
        browser.wait(
            f"return document.querySelector('#g1-lanes .tip').textContent.includes('{wanted}')"
        )
    browser.run("document.activeElement.blur()")
    browser.wait("return document.querySelector('#g1-lanes .tip').hidden")
    assert browser.messages() == []


def test_a_drag_zooms_all_charts_and_a_double_click_ends_that(
    browser: Browser, tmp_path: Path
) -> None:
    opened(browser, tmp_path, render(report()))
    browser.run(
        """document.documentElement.style.scrollBehavior = 'auto';
        document.getElementById('g1-rate').scrollIntoView({block: 'center'});"""
    )
    left, top, width, height = browser.run(
        """const box = document.querySelector('#g1-rate .plot').getBoundingClientRect();
        return [box.left, box.top, box.width, box.height]"""
    )

    def mouse(kind: str, share: float, clicks: int = 1) -> None:
        browser.devtools(
            "Input.dispatchMouseEvent",
            {
                "type": kind,
                "x": left + share * width,
                "y": top + height / 2,
                "button": "none" if kind == "mouseMoved" else "left",
                "buttons": int(kind != "mouseReleased"),
                "clickCount": clicks,
            },
        )

    mouse("mousePressed", 0.4)
    mouse("mouseMoved", 0.6)
    browser.wait("return document.querySelectorAll('#g1 .time-marked').length === 4")
    mouse("mouseReleased", 0.6)
    browser.wait("return document.querySelector('#g1 .range').textContent !== ''")
    assert browser.run("return document.querySelectorAll('#g1 .time-marked').length") == 0
    # Two hours are somewhat narrower than the plot.
    text = browser.run("return document.querySelector('#g1 .range').textContent")
    assert re.search(r" UTC, 2[6-9] min", text), text
    for clicks in (1, 2):
        mouse("mousePressed", 0.5, clicks)
        mouse("mouseReleased", 0.5, clicks)
    browser.wait("return document.querySelector('#g1 .range').textContent === ''")
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
        browser.resize(1920, 900)
        browser.wait(f"return (() => {{ {hidden} }})().every((hidden) => hidden)")
        browser.resize(380, 800)
        browser.wait(f"return (() => {{ {hidden} }})().every((hidden) => !hidden)")
        assert browser.run("return document.documentElement.scrollWidth") == 380
        hint = browser.run("return document.querySelector('.hint').textContent")
        assert hint.startswith("This table is wider than the page: scroll sideways")
        assert browser.run(SHADOWS) == ["local, local, scroll, scroll", True]
        browser.run("document.querySelector('#g1-lag details').open = true")
        browser.wait("return document.querySelector('#g1-lag .table-box') !== null")
        boxes = browser.run(
            """return [...document.querySelectorAll('.table-box')].map(
              (box) => [box.getAttribute('role'), box.tabIndex, box.getAttribute('aria-label')])"""
        )
        assert boxes == [
            ["region", 0, "Groups"],
            ["region", 0, "Share-partitions"],
            ["region", 0, "Records"],
            ["group", 0, "Lag of billing"],
            ["region", 0, "Rebalances of billing"],
        ]
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
