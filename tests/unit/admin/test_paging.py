"""Pages: what a request asks for, and where the next one begins."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from groupd.coordinator.admin.groups import partition_of
from groupd.coordinator.admin.http_messages import HttpRequest, Refusal
from groupd.coordinator.admin.pages import CURSOR_MAX, Window, next_page, window
from groupd.coordinator.core.slices import LISTED_MAX


def asked(**query: str) -> HttpRequest:
    return HttpRequest(("groups", "team/a"), query)


def test_a_request_without_parameters_wants_the_first_page() -> None:
    assert window(asked()) == Window(None, LISTED_MAX)
    assert window(asked(after="", limit="7")) == Window("", 7)


@pytest.mark.parametrize("limit", ["", "0", "-1", "1.5", "x", "١", str(LISTED_MAX + 1), "9" * 5000])
def test_a_limit_that_is_none_is_refused(limit: str) -> None:
    with pytest.raises(Refusal, match="limit must be a whole number from 1 to 10000"):
        window(asked(limit=limit))


@pytest.mark.parametrize("after", ["g-1", "a b&limit=3", 'ü/?#"><', "", "x" * CURSOR_MAX])
def test_the_link_brings_back_where_the_page_ended(after: str) -> None:
    ((name, value),) = next_page(asked(), after, 20)
    assert name == "Link"
    assert value.startswith("</groups/team%2Fa?")
    assert value.endswith('>; rel="next"')
    assert value.isascii()
    query = parse_qs(urlsplit(value[1 : value.index(">")]).query, keep_blank_values=True)
    assert query == {"after": [after], "limit": ["20"]}


def test_the_link_behind_a_very_long_id_can_be_asked_for() -> None:
    ((_, value),) = next_page(asked(), "ü" * 30_000, 20)
    assert len(value) < 10_000
    (after,) = parse_qs(urlsplit(value).query.partition(">")[0])["after"]
    assert after > "ü" * 30_000
    assert after < "ý"


def test_a_partition_is_written_with_its_topic() -> None:
    assert partition_of("my-topic-17") == ("my-topic", 17)
    for wrong in ("", "topic", "topic-", "topic-x", "topic-²", "-", "t-" + "9" * 11):
        with pytest.raises(Refusal):
            partition_of(wrong)
