"""What `help()` shows of groupd.testing: every public member is described, and the examples run."""

from __future__ import annotations

import asyncio
import doctest
import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer

import groupd.testing
from groupd.testing.handles import FaultHandle, Faults, HarnessClock, Incident, RecipeCalls
from groupd.testing.harness import GroupCoordinator, GroupCoordinatorFactory
from groupd.testing.share_handles import ShareHandle

NAMES = groupd.testing.__all__
USED = (GroupCoordinator, HarnessClock, Faults, FaultHandle, RecipeCalls, Incident, ShareHandle)
"""What tests get in their hands: its members have examples."""
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
ACLS = ["billing may READ topic orders", "billing may READ group billing"]


def public(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties that groupd gives a class."""
    for name in dir(kind):
        if not name.startswith("_"):
            found = inspect.getattr_static(kind, name)
            owner = next(one for one in kind.__mro__ if name in vars(one))
            described = isinstance(found, property | classmethod | staticmethod)
            if owner.__module__.startswith("groupd.") and (described or inspect.isfunction(found)):
                yield f"{kind.__name__}.{name}", getattr(kind, name)


MEMBERS = dict(pair for kind in USED for pair in public(kind))
EXAMPLES = {**{kind.__name__: kind for kind in USED}, **MEMBERS}


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_described(name: str) -> None:
    found = getattr(groupd.testing, name)
    text = vars(found).get("__doc__") if isinstance(found, type) else found.__doc__
    assert text, f"groupd.testing.{name} has no docstring"
    assert not text.startswith(f"{name}("), f"groupd.testing.{name} has no docstring of its own"
    if isinstance(found, type):
        for member, value in public(found):
            assert inspect.getdoc(value), f"{member} has no docstring"


@pytest.mark.parametrize("name", MEMBERS)
def test_every_member_has_an_example(name: str) -> None:
    text = inspect.getdoc(MEMBERS[name])
    assert text, f"{name} has no docstring"
    assert ">>> " in text, f"{name} has no example"


@pytest.mark.parametrize("name", [n for n, one in EXAMPLES.items() if ">>> " in str(one.__doc__)])
def test_the_example_runs(
    name: str,
    groupd: GroupCoordinator,
    groupd_factory: GroupCoordinatorFactory,
    capsys: pytest.CaptureFixture[str],
) -> None:
    groupd.create_topic("orders", 3)
    names: dict[str, Any] = {
        "asyncio": asyncio,
        "Consumer": Consumer,
        "groupd": groupd,
        "GroupCoordinator": GroupCoordinator,
    }
    if "secured" in EXAMPLES[name].__doc__:
        users = {"billing": "secret"}
        names["secured"] = groupd_factory(
            {"orders": 3}, security="SASL_PLAINTEXT", users=users, acls=ACLS
        )
    text = inspect.cleandoc(EXAMPLES[name].__doc__)
    example = doctest.DocTestParser().get_doctest(text, names, name, None, None)
    failed, tried = doctest.DocTestRunner(optionflags=OPTIONS).run(example)
    assert (failed, tried > 0) == (0, True), capsys.readouterr().out
