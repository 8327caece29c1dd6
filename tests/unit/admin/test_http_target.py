"""Paths and their segments: every id of a group has a path that clients leave as it is."""

from __future__ import annotations

from urllib.parse import urljoin, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupd.coordinator.admin.http_messages import HttpRequest, path_of, segments_of
from groupd.coordinator.admin.pages import next_page


@given(st.one_of(st.sampled_from(["", ".", "..", "=", "=..", "groups-named"]), st.text()))
def test_a_path_names_its_group_whatever_it_is_called(group_id: str) -> None:
    for below in ((), ("offsets", "reset")):
        path = path_of(("groups", group_id, *below))
        assert segments_of(path) == ("groups", group_id, *below)
        # What a client makes of it that takes dots out of paths.
        assert urlsplit(urljoin("http://localhost/", path)).path == path


@pytest.mark.parametrize(
    ("path", "segments"),
    [
        ("/", ()),
        ("//groups//a%2Fb/", ("groups", "a/b")),
        ("/groups/..", ("groups", "..")),
        ("/groups-named/=../lag", ("groups", "..", "lag")),
        ("/groups-named/=billing", ("groups", "billing")),
        ("/live/groups-named/=", ("live", "groups", "")),
        ("/groups-named/billing", ("groups-named", "billing")),
        ("/groups/groups-named/=x", ("groups", "groups-named", "=x")),
    ],
)
def test_segments(path: str, segments: tuple[str, ...]) -> None:
    assert segments_of(path) == segments


def test_the_next_page_of_a_group_with_such_a_name() -> None:
    request = HttpRequest(("groups", "..", "offsets"), {})
    assert next_page(request, "t-1", 10) == (
        ("Link", '</groups-named/=../offsets?after=t-1&limit=10>; rel="next"'),
    )
