"""`python -m tests.support.with_internal_limits NAME=VALUE,... serve ...`: groupd with other limits
(`groupd.coordinator.config.internal_limits`), so that no test waits for a timeout of a minute."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import fields, replace
from unittest.mock import patch

from groupd.coordinator.config.coordinator_config import PROFILES, CoordinatorConfig, with_settings
from groupd.coordinator.config.internal_limits import InternalLimits

NAMES = frozenset(entry.name for entry in fields(InternalLimits))


def configured(settings: Mapping[str, str]) -> CoordinatorConfig:
    """The configuration with these settings, some of which may be names of constants."""
    constants = {name: int(value) for name, value in settings.items() if name in NAMES}
    return with_settings(
        replace(CoordinatorConfig(), **constants),
        {key: value for key, value in settings.items() if key not in NAMES},
    )


if __name__ == "__main__":
    from groupd.coordinator.cli.main import main

    given = dict(pair.split("=") for pair in sys.argv.pop(1).split(","))
    with patch.dict(PROFILES, {"default": configured(given)}):
        main()
