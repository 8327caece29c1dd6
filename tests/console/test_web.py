"""The console's own tests, which Node runs, and what browsers are given."""

from __future__ import annotations

import re
import subprocess

from tests.support.toolchain import ROOT, console_script

BUILT = ROOT / "groupd" / "coordinator" / "console" / "built"


def test_the_functions_of_the_pages() -> None:
    done = subprocess.run(
        console_script("test"), capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    passed = re.search(r"^# pass (\d+)$", done.stdout, re.MULTILINE)
    assert passed is not None
    assert int(passed[1]) > 10


def test_what_browsers_get_asks_nobody_else() -> None:
    """Neither scripts nor styles in the page, which the Content-Security-Policy would refuse, and
    no address of another host in anything that is loaded."""
    page = (BUILT / "index.html").read_text()
    assert "<script>" not in page
    assert "style=" not in page
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert len(loaded) == 3
    assert [
        one for one in loaded if not one.startswith(("./console/", "data:image/svg+xml,"))
    ] == []
    assert "url(" not in (BUILT / "console.css").read_text()


def test_the_licences_of_what_is_bundled() -> None:
    text = (BUILT / "LICENSES.txt").read_text()
    for name, author in (("preact", "Jason Miller"), ("uplot", "Leon Sorokin")):
        assert re.search(rf"^{name} \d+\.\d+\.\d+$", text, re.MULTILINE), name
        assert author in text
    assert text.count("Permission is hereby granted") == 2
