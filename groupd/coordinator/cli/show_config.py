"""`groupd config`: lists the config keys with default, range, meaning, and when to change them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from dataclasses import Field


def span(entry: Field[Any]) -> str:
    """Describes the range of a field; "" if it has none."""
    low, high, choices = (entry.metadata[name] for name in ("low", "high", "choices"))
    if choices:
        return " | ".join(choices)
    if isinstance(entry.default, bool):
        return "true | false"
    if low is None and high is None:
        return ""
    return f">= {low}" if high is None else f"{low} to {high}"


def show_config() -> None:
    """List every config key: its default, range and meaning, and when to change it."""
    # Imported here, because `--help` needs no configuration.
    from groupd.coordinator.config.coordinator_config import FIELDS_BY_KEY
    from groupd.coordinator.config.settings import described, setting_text

    for key, entry in sorted(FIELDS_BY_KEY.items()):
        bounds = span(entry)
        typer.echo(f"{key}={setting_text(entry.default)}" + (f"  [{bounds}]" if bounds else ""))
        about = described(key)
        typer.echo(f"    {about.meaning} {about.why}")
