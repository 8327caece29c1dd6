"""Imports libraries without the optional libraries that they would load if these were installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without(name: str) -> Iterator[None]:
    """Hide the module `name` from imports inside this context, as if it were not installed. Does
    nothing if the module is already loaded."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


def load_structlog() -> None:
    """Load structlog without rich, with which it would draw tracebacks: loading rich takes an
    eighth of a start. groupd writes tracebacks plainly (`coordinator.server.logs`)."""
    with without("rich"):
        import structlog  # noqa: F401
