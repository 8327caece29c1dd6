"""Libraries without the parts of others that they would use if they were there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without(name: str) -> Iterator[None]:
    """What is imported inside finds no module `name`, as if it was not installed; afterwards it is
    there again. Nothing happens if it is loaded already."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


def load_structlog() -> None:
    """structlog draws tracebacks with rich, which takes an eighth of a start to load. groupd
    writes them plainly (`coordinator.server.logs`)."""
    with without("rich"):
        import structlog  # noqa: F401
