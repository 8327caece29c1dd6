"""What is derived from the code is current: the page of config keys, the table of APIs."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from groupd.coordinator.cli.serve_flags import flags
from groupd.coordinator.config.coordinator_config import FIELDS_BY_KEY
from groupd.protocol.wire.apis import API_RANGES

ROOT = Path(__file__).resolve().parents[3]
BOUND = re.compile("(consumer|share)_(min|max)_")
SERVE_PAGE = ROOT / "docs" / "serve.md"


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_current(generate: ModuleType) -> None:
    for path, content in generate.pages().items():
        assert path.read_text() == content, f"run: python docs/generate.py ({path.name} is stale)"


def test_every_config_key_stands_on_the_page_once_with_its_default(generate: ModuleType) -> None:
    page = (ROOT / "docs" / "config.md").read_text().partition("## Topic configs")[0]
    rows = [
        [cell.strip() for cell in line.split(" | ")]
        for line in page.splitlines()
        if line.startswith("| `")
    ]
    found = {row[0].strip("|` "): row[1].strip("`") for row in rows}
    assert len(rows) == len(found) == len(FIELDS_BY_KEY)
    assert found == {
        key: generate.setting_text(entry.default) or "not set"
        for key, entry in FIELDS_BY_KEY.items()
    }


def test_every_setting_is_read_by_the_product() -> None:
    """By its name or its key. Bounds of a setting are read by names that are put together."""
    sources = "".join(
        path.read_text()
        for path in (ROOT / "groupd" / "coordinator").rglob("*.py")
        if path.parent.name != "config"
    )
    # The configuration itself reads these, on behalf of others.
    own = (ROOT / "groupd/coordinator/config/coordinator_config.py").read_text()
    sources += own.partition("@property")[2]
    words = set(re.findall(r"[\w.]+", sources)) | set(re.findall(r"\w+", sources))
    assert [
        key
        for key, entry in FIELDS_BY_KEY.items()
        if not {key, entry.name} & words and not BOUND.match(entry.name)
    ] == []


def test_the_table_of_apis_equals_what_is_advertised() -> None:
    table = SERVE_PAGE.read_text().partition("<!-- apis -->")[2].partition("<!-- /apis -->")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    found = set()
    for key, _, versions in rows[1:]:
        low, _, high = versions.partition("-")
        found.add((int(key), int(low), int(high or low)))
    assert found == {(one.api_key, one.min_version, one.max_version) for one in API_RANGES}


def test_the_page_names_every_flag_of_serve_and_every_key_it_shows_exists() -> None:
    page = SERVE_PAGE.read_text()
    for flag in flags():
        assert f"| `{flag} " in page or f"| `{flag}`" in page, flag
    config = page.partition("## Configuration")[2].partition("\n## ")[0]
    keys = [line.split("`")[1] for line in config.splitlines() if line.startswith("| `")]
    assert keys
    assert set(keys) <= set(FIELDS_BY_KEY)
    for line in config.splitlines():
        if line.startswith("| `"):
            key, default = line.split("`")[1], line.split(" | ")[1]
            assert default == generate_default(key), key


def generate_default(key: str) -> str:
    from groupd.coordinator.config.settings import setting_text

    return setting_text(FIELDS_BY_KEY[key].default)


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
