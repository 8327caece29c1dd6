"""Which log the flags name: the log of a store, or that of a cluster."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from groupd.coordinator.cli.errors import UsageError

DEFAULT_DATA_DIR = Path("./groupd-data")


class LogLocation(Struct, frozen=True):
    """A place with an offsets log. `bootstrap` None: the log of a store. `command_config`: how to
    log in to a cluster (`groupd.coordinator.cli.kafka.client_config`)."""

    data_dir: Path
    store: str | None
    bootstrap: str | None
    command_config: Path | None = None


def place(
    data_dir: Path | None,
    store: str | None,
    bootstrap: str | None,
    command_config: Path | None = None,
) -> LogLocation:
    """The place that the flags name. Raises UsageError when they name more than one."""
    if bootstrap is not None and (data_dir is not None or store is not None):
        raise UsageError("--bootstrap reads from a cluster: leave --data-dir and --store out")
    check_config(command_config, bootstrap)
    return LogLocation(data_dir or DEFAULT_DATA_DIR, store, bootstrap, command_config)


def check_config(command_config: Path | None, bootstrap: str | None) -> None:
    """Raises UsageError for a --command-config that nobody would read."""
    if command_config is not None and bootstrap is None:
        raise UsageError("--command-config is for a cluster: name one with --bootstrap")
