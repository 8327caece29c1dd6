"""The tree keeps its own rules: sizes, no orphans, no dead links, nothing of one machine."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("coordinator", "storage", "protocol", "pipeline")
"""What `groupd/` has links to."""
FILE_LINES_MAX = 600
"""`make lint` warns of files above 400 lines; at this many there are two files in one."""
FUNCTION_LINES_MAX = 60
SKIPPED = {"node_modules", "target", "__pycache__", "build", "dist"}

# Written in two parts, so that this file passes its own test.
FORBIDDEN = (
    r"/(work|root|home/\w+)" + r"/[\w.]",
    (
        r"(pypi\.org|pythonhosted\.org|registry\.npmjs|npmjs\.org|repo1?\.maven|maven\.org"
        r"|proxy\.golang|sum\.golang|crates\.io|index-url)"
    ),
)
MODULE_ENTRIES = {
    "groupd.__main__",  # python -m groupd
    "groupd.coordinator.cli.main",  # the command groupd
    "groupd.pipeline.__main__",  # python -m groupd.pipeline
}


def tree() -> list[Path]:
    """The files of the project: what git tracks or would track; without git, all but leftovers."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listing.returncode == 0:
        paths = [ROOT / name.decode() for name in listing.stdout.split(b"\0") if name]
    else:
        paths = [
            path
            for path in ROOT.rglob("*")
            if not any(
                part in SKIPPED or (part.startswith(".") and part != ".ci")
                for part in path.relative_to(ROOT).parent.parts
            )
        ]
    return sorted(path for path in paths if path.is_file())


def sources() -> list[Path]:
    folders = [ROOT / "groupd" / "testing", *(ROOT / folder for folder in FOLDERS)]
    own = sorted((ROOT / "groupd").glob("*.py"))
    return own + [path for folder in folders for path in sorted(folder.rglob("*.py"))]


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "groupd" else ("groupd", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_no_source_file_is_longer_than_the_limit() -> None:
    web = [path for path in tree() if path.suffix in (".ts", ".tsx", ".mjs", ".css")]
    checked = [*sources(), ROOT / "docs" / "generate.py", *web]
    long = {str(p.relative_to(ROOT)): n for p in checked if (n := lines(p)) > FILE_LINES_MAX}
    assert long == {}


def test_no_function_is_longer_than_the_limit() -> None:
    long = {}
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION_LINES_MAX:
                    long[f"{path.relative_to(ROOT)}:{node.name}"] = length
    assert long == {}


def test_every_module_is_imported_somewhere() -> None:
    imported = set(MODULE_ENTRIES)
    for path in sources():
        imported |= set(imports(path))
    modules = {name_of(path) for path in sources() if path.name != "__init__.py"}
    # Jobs and APIs are found by looking into their packages.
    found = ("groupd.pipeline.jobs.", "groupd.protocol.wire.api.")
    imported |= {module for module in modules if module.startswith(found)}
    # What users import in their own tests.
    public = {module for module in modules if module.startswith("groupd.testing.")}
    assert modules - imported - public == set()


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("pattern", FORBIDDEN)
def test_no_file_names_a_machine_path_or_a_registry(pattern: str) -> None:
    found = []
    for path in tree():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        if path == Path(__file__):
            continue
        found += [f"{path.relative_to(ROOT)}: {hit[0]}" for hit in re.finditer(pattern, text)]
    assert found == []


def pages() -> list[Path]:
    found = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in found if not SKIPPED & set(page.relative_to(ROOT).parts)]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_resolves(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"\w+:", target):
            continue
        path, _, fragment = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (fragment and fragment not in anchors(file)):
            dead.append(target)
    assert dead == []


def anchors(page: Path) -> set[str]:
    """What a link into a page may name: headings, as code hosts make ids of them, and anchors."""
    text = page.read_text()
    named = re.findall(r'<a id="([^"]+)"></a>', text)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    slugs = (re.sub(r"[^\w\- ]", "", one.lower().replace("`", "")) for one in headings)
    return {*named, *(slug.replace(" ", "-") for slug in slugs)}


@pytest.mark.parametrize("page", ["architecture.md", "terms.md"])
def test_paths_in_pages_about_the_code_exist(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    named = set(re.findall(r"`([\w.]+/[\w./]*)`", text))
    assert len(named) > 20
    homes = [ROOT, ROOT / "groupd", ROOT / "groupd" / "coordinator"]
    assert [
        name for name in sorted(named) if not any((home / name).exists() for home in homes)
    ] == []


def test_the_architecture_page_is_short() -> None:
    """2,500 words, of which 500 are the picture of the packages."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    before, _, picture = text.partition("<!-- packages -->")
    assert len(before.split()) + len(picture.partition("<!-- /packages -->")[2].split()) <= 2000


def test_decisions_are_numbered_without_gaps_and_have_all_sections() -> None:
    records = sorted((ROOT / "docs" / "adr").glob("*.md"))
    assert [path.name[:4] for path in records] == [f"{n:04}" for n in range(1, len(records) + 1)]
    for path in records:
        text = path.read_text()
        assert text.startswith(f"# {int(path.name[:4])}. "), f"{path.name} has another number"
        if "\nSuperseded" in text:
            assert lines(path) == 3, f"{path.name}: one line says what has come instead"
            continue
        for section in ("Status:", "## Context", "## Decision", "## Consequences"):
            assert section in text, f"{path.name} lacks {section}"


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_names_in_the_architecture_page_exist() -> None:
    """Words in backticks that look like a class or a function of ours."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    named = {
        part
        for words in re.findall(r"`([A-Za-z_]\w*(?:\.\w+)*)`", text)
        for part in words.split(".")
        if re.fullmatch(r"[A-Z][a-z]+[A-Z]\w+|[a-z]+_[a-z_]+|_[a-z_]+", part)
    }
    assert len(named) > 25
    source = "\n".join(path.read_text() for path in sources())
    known = source + "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    assert sorted(name for name in named if not re.search(rf"\b{name}\b", known)) == []
