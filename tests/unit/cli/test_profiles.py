"""`--profile`: below --config and --set; every key and value is one that there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupd.coordinator.cli.parse import UsageError, build_config
from groupd.coordinator.config.coordinator_config import PROFILES, settings_of

INTERVAL = "group.consumer.heartbeat.interval.ms"


def test_the_default_profile_changes_nothing() -> None:
    assert build_config(None, (), "default") == build_config(None, ())


def test_the_test_profile_makes_groups_quick() -> None:
    config = build_config(None, (), "test")
    assert config.group_initial_rebalance_delay_ms == 0
    assert config.consumer_assignment_interval_ms == 0
    assert config.consumer_session_timeout_ms == 45_000
    assert config.consumer_min_session_timeout_ms == config.group_min_session_timeout_ms == 1


def test_file_and_set_win_over_the_profile(tmp_path: Path) -> None:
    path = tmp_path / "c.properties"
    path.write_text(f"{INTERVAL}=70\ngroup.initial.rebalance.delay.ms=9\n")
    config = build_config(path, [f"{INTERVAL}=80"], "test")
    assert config.consumer_heartbeat_interval_ms == 80
    assert config.group_initial_rebalance_delay_ms == 9


def test_an_unknown_profile() -> None:
    with pytest.raises(UsageError, match="--profile fast: must be default or test"):
        build_config(None, (), "fast")


def test_the_table_in_the_reference_is_the_profile() -> None:
    page = (Path(__file__).parents[3] / "docs" / "testing.md").read_text()
    defaults, values = (settings_of(PROFILES[name]) for name in ("default", "test"))
    changed = {key for key, value in values.items() if value != defaults[key]}
    assert len(changed) == 16
    for key in changed:
        assert f"| `{key}` | {defaults[key] or 'not set'} | {values[key]} |" in page
