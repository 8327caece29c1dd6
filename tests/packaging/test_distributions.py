"""What `make dist` makes: what a package index takes, and what an installation gets."""

from __future__ import annotations

import json
import re
import shutil
import sys
import zipfile
from pathlib import Path

from tests.support.distributions import FOLDERS, PACKAGE, ROOT, Distributions, checkout, run

BESIDE = {
    *("CHANGELOG.md", "CONTRIBUTING.md", "Dockerfile", "LICENSE", "README.md"),
    *("SECURITY.md", "constraints.txt", "constraints-image.txt", "deploy", "docs", "examples"),
    *("pyproject.toml", "scripts"),
}
MADE = {"PKG-INFO", ".gitignore"}
"""What hatchling adds."""
CONSOLE = f"{PACKAGE}/coordinator/console"
PAGE = {
    f"{CONSOLE}/built/{name}"
    for name in (
        *("index.html", "console.js", "console.css", "LICENSES.txt"),
        *("report.js", "report.css"),
    )
}
"""The web page and the parts of the pipeline's report, which are built and not tracked."""
LINK = re.compile(r"\]\(([^)]*)\)")


def test_the_wheel_has_one_package_and_nothing_else(made: Distributions) -> None:
    info = {name for name in made.wheel if ".dist-info/" in name}
    assert {name.partition("/")[0] for name in made.wheel - info} == {PACKAGE}
    assert f"{PACKAGE}/py.typed" in made.wheel
    assert any(name.endswith("/licenses/LICENSE") for name in info)
    modules = {
        name
        for name in made.tracked
        if name.startswith(f"{PACKAGE}/") and not name.startswith(f"{CONSOLE}/web/")
    }
    assert made.wheel - info == modules | PAGE
    assert all(f"{PACKAGE}/{folder}/__init__.py" in modules for folder in FOLDERS)


def test_the_source_distribution_has_what_the_readme_names_and_no_tests(
    made: Distributions,
) -> None:
    assert {name.partition("/")[0] for name in made.source} == {PACKAGE} | BESIDE | MADE
    own = {name for name in made.source if name.partition("/")[0] not in MADE}
    assert own - PAGE <= made.tracked
    web = {name for name in made.tracked if name.startswith(f"{CONSOLE}/web/")}
    assert web | PAGE <= made.source
    named = {link.partition("#")[0] for link in LINK.findall((ROOT / "README.md").read_text())}
    for path in named - {""}:
        assert any(name == path or name.startswith(f"{path.rstrip('/')}/") for name in own), path


def test_the_description_has_no_link_that_leads_nowhere(made: Distributions) -> None:
    text = made.metadata.get_payload()
    assert isinstance(text, str)
    assert [link for link in LINK.findall(text) if "://" not in link] == []
    assert "Integration tests (`docs/testing.md`)" in text
    assert "are in the source distribution" in text
    # Code is as it was.
    assert '@pytest.mark.groupd(topics={"orders": 3})' in text


def test_metadata(made: Distributions) -> None:
    assert made.metadata["License-Expression"] == "Apache-2.0"
    assert made.metadata["Author"] == "groupd developers"
    assert made.metadata["Description-Content-Type"] == "text/markdown"
    versions = [
        line.rpartition(" ")[2]
        for line in made.metadata.get_all("Classifier", [])
        if re.search(r"Python :: 3\.\d+$", line)
    ]
    assert versions == ["3.11", "3.12", "3.13", "3.14"]
    assert made.metadata["Requires-Python"] == f">={versions[0]}"
    releasing = (ROOT / "docs/releasing.md").read_text()
    for version in versions:
        assert re.search(rf"\b{re.escape(version)}\.\d", releasing), f"{version} was not tried"


def test_the_web_page_has_the_licences_of_the_code_of_others(made: Distributions) -> None:
    with zipfile.ZipFile(made.path) as opened:
        text = opened.read(f"{CONSOLE}/built/LICENSES.txt").decode()
    packages = json.loads((ROOT / "groupd/coordinator/console/web/package.json").read_text())
    bundled = set(packages["dependencies"]) - {"esbuild"}
    for name in bundled:
        assert f"{name} {packages['dependencies'][name]}\n" in text
    assert text.count("Permission is hereby granted") == len(bundled)


def test_the_context_of_the_dockerfile_is_enough_to_install(
    made: Distributions, tmp_path: Path
) -> None:
    """What .dockerignore lets through."""
    allowed = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    paths = checkout(tmp_path / "all")
    for path in paths:
        if path in allowed or path.partition("/")[0] in allowed:
            (tmp_path / "context" / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.move(tmp_path / "all" / path, tmp_path / "context" / path)
    # The stage of the image that has npm makes the web page.
    page = Path("groupd/coordinator/console/built")
    shutil.copytree(made.tree / page, tmp_path / "context" / page)
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index")
    run(*pip, "--no-build-isolation", "--wheel-dir", "out", ".", cwd=tmp_path / "context")
    (wheel,) = (tmp_path / "context/out").glob("*.whl")
    assert set(zipfile.ZipFile(wheel).namelist()) == made.wheel
    (constraint,) = re.findall(r"--requirement (\S+)", (ROOT / "Dockerfile").read_text())
    assert (tmp_path / "context" / constraint).is_file()
