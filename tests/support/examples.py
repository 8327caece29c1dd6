"""How many examples the tests with Hypothesis try. A profile says it for all of them:
`--hypothesis-profile=check` a fifth of what the tests name (`make check`), `test` as many (the
default), `nightly` ten times as many (`make nightly`)."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

USUAL = 100
"""What a test tries in `test` if it names no number; Hypothesis's default."""


def register_profiles() -> None:
    """For `tests/conftest.py`. Without a deadline: how long one example takes says more about what
    else the machine does than about groupd."""
    for name, count in (("check", USUAL // 5), ("test", USUAL), ("nightly", USUAL * 10)):
        settings.register_profile(name, deadline=None, max_examples=count)
    settings.load_profile("test")


def examples(count: int, **more: Any) -> settings:
    """Settings for a test that tries `count` examples in `make test`. `more`: other settings of
    Hypothesis."""
    chosen = settings.default
    assert chosen is not None
    return settings(max_examples=max(1, count * chosen.max_examples // USUAL), **more)
