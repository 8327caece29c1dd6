"""kafka-python in the process of the tests: a plugin of pytest.

kafka-python 3.0 may leave a socket open although its client was closed: two of 25 rounds of a
producer, a consumer and an admin client did, and its own code had opened both. Python warns of such
a socket when it collects the garbage, which may be in a test of another file, and fails that one.
So tests of files that use kafka-python do not look at such warnings, and the garbage is collected
at their end. The price: in these files no other socket that is left open is noticed either.
"""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Iterator
from functools import cache
from types import ModuleType

import pytest

LEFT_OPEN = "ignore:unclosed <socket:ResourceWarning"


@cache
def uses_kafka_python(module: ModuleType) -> bool:
    """Whether a module, or a module of the tests that it uses, imports something from it."""
    names = [name for name in _homes(module) if name.startswith("tests.")]
    ours = [sys.modules[name] for name in names if name in sys.modules]
    return any(_is_its(name) for one in (module, *ours) for name in _homes(one))


def _homes(module: ModuleType) -> set[str]:
    """The modules that the names of a module come from."""
    values = vars(module).values()
    return {
        value.__name__ if isinstance(value, ModuleType) else str(getattr(value, "__module__", ""))
        for value in values
    }


def _is_its(name: str) -> bool:
    return name.partition(".")[0] == "kafka"


def pytest_itemcollected(item: pytest.Item) -> None:
    if isinstance(item, pytest.Function) and uses_kafka_python(item.module):
        item.add_marker(pytest.mark.filterwarnings(LEFT_OPEN))


@pytest.fixture(autouse=True, scope="module")
def _sockets_that_kafka_python_left(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if uses_kafka_python(request.module):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
