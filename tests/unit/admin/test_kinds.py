"""Which places a request of the admin port takes."""

from __future__ import annotations

import pytest

from groupd.coordinator.admin.admin_limits import REQUESTS_MAX, kind_of


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ((), "pages"),
        (("healthz",), "probes"),
        (("metrics",), "metrics"),
        (("groups",), "pages"),
        (("groups", "moves"), "pages"),  # a group of that name
        (("groups", "g", "lag"), "pages"),
        (("groups", "g", "moves"), "moves"),
        (("groups", "g", "moves", "x"), "pages"),
        (("live", "groups"), "streams"),
    ],
)
def test_kinds(path: tuple[str, ...], kind: str) -> None:
    assert kind_of(path) == kind
    assert REQUESTS_MAX[kind] > 0
