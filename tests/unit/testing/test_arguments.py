"""Arguments are checked by annotations, for every call that the harness has."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import pytest

from groupd.coordinator.faults.errors import HarnessError, WrongType
from groupd.coordinator.suggest import did_you_mean, there_are
from groupd.testing.arguments import check_arguments
from groupd.testing.harness import START
from groupd.testing.operations import Operations

CALLS = [call for name, call in inspect.getmembers(Operations) if not name.startswith("_")]


class Example:
    def call(
        self,
        name: str,
        count: int = 1,
        *,
        timeout: float = 1.0,
        flag: bool = False,
        mode: Literal["fast", "slow"] = "fast",
        numbers: Iterable[int] = (),
        sizes: Mapping[str, int] | None = None,
        place: tuple[str, int] | None = None,
    ) -> None: ...


@pytest.mark.parametrize("call", [*CALLS, START], ids=lambda call: call.__name__)
def test_annotations_of_every_call_can_be_read(call: Any) -> None:
    with pytest.raises(WrongType, match=rf"{call.__name__}\(\)"):
        check_arguments(call, tuple(range(30)), {})


@pytest.mark.parametrize(
    ("args", "options"),
    [
        (("a",), {}),
        (("a", 2), {"timeout": 1, "flag": True, "mode": "slow"}),
        (("a",), {"numbers": [1], "sizes": {"a": 1}, "place": ("a", 1)}),
        (("a",), {"sizes": None, "place": ["a", 1]}),
    ],
)
def test_what_fits(args: tuple[Any, ...], options: dict[str, Any]) -> None:
    check_arguments(Example.call, args, options)


@pytest.mark.parametrize(
    ("args", "options", "said"),
    [
        ((), {}, "call(): missing a required argument: 'name'"),
        (("a", 1, 2), {}, "call(): too many positional arguments"),
        ((b"a",), {}, "call(): name must be text, not bytes"),
        (("a", "2"), {}, "call(): count must be a whole number, not str"),
        (("a", True), {}, "call(): count must be a whole number, not True"),
        (("a", 1.5), {}, "call(): count must be a whole number, not 1.5"),
        (("a",), {"timeout": "1"}, "call(): timeout must be a number, not str"),
        (("a",), {"flag": 1}, "call(): flag must be True or False, not 1"),
        (("a",), {"numbers": "12"}, "call(): numbers must be a list, not str"),
        (("a",), {"sizes": ["a"]}, "call(): sizes must be a dictionary or None, not list"),
        (("a",), {"sizes": {"a": "1"}}, "call(): sizes['a'] must be a whole number, not str"),
        (("a",), {"sizes": {1: 1}}, "call(): sizes: key 1 must be text, not 1"),
        (("a",), {"timout": 1}, "call() has no argument timout; did you mean timeout?"),
    ],
)
def test_what_does_not(args: tuple[Any, ...], options: dict[str, Any], said: str) -> None:
    with pytest.raises(WrongType) as caught:
        check_arguments(Example.call, args, options)
    assert str(caught.value) == said
    assert isinstance(caught.value, TypeError)


def test_one_of_several_choices() -> None:
    with pytest.raises(HarnessError, match=r"mode 'fats'; did you mean fast\?: must be fast or"):
        check_arguments(Example.call, ("a",), {"mode": "fats"})


def test_suggestions_and_lists() -> None:
    assert did_you_mean("Order", ["orders", "payments"]) == "; did you mean orders?"
    assert did_you_mean("x", ["orders"]) == ""
    assert there_are([]) == "none"
    assert there_are(f"t{n:02}" for n in range(12)) == (
        "t00, t01, t02, t03, t04, t05, t06, t07, t08, t09 and 2 more"
    )
