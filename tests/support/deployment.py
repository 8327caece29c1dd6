"""What a container runs, read as the daemon reads it: flags, settings, variables."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from unittest.mock import patch

from groupd.coordinator.cli.parse import build_config
from groupd.coordinator.cli.serve_flags import ServeFlags, read_flags
from groupd.coordinator.config.coordinator_config import CoordinatorConfig


def serve_flags(
    arguments: Sequence[str], variables: Mapping[str, str], files: Mapping[str, Path] | None = None
) -> tuple[ServeFlags, CoordinatorConfig]:
    """The flags and settings of a container with these arguments and variables. `files`: where the
    files of --config are, by their path in the container. Raises UsageError, AssertionError."""
    command, *rest = arguments
    assert command == "serve"
    words = [word for argument in rest for word in _words(argument)]
    with patch.dict(os.environ, variables, clear=True):
        found = read_flags(words)
        assert found is not None, words
        config = found.config
        if config is not None:
            config = (files or {})[str(config)]
        return found, build_config(config, found.sets)


def _words(argument: str) -> list[str]:
    name, equals, value = argument.partition("=")
    return [name, value] if equals else [name]
