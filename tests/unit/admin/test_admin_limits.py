"""Places on the admin port: who gets one, and who loses it."""

from __future__ import annotations

from typing import cast

from groupd.coordinator.admin.admin_limits import AdminLimit


class Transport:
    """Stands for a transport: `AdminLimit` only aborts it."""

    def __init__(self) -> None:
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


def transports(count: int) -> list[Transport]:
    return [Transport() for _ in range(count)]


def take(limit: AdminLimit, transport: Transport) -> bool:
    return limit.take(cast("object", transport))  # type: ignore[arg-type]


def wait(limit: AdminLimit, transport: Transport, address: str = "") -> None:
    limit.wait_for_client(cast("object", transport), address)  # type: ignore[arg-type]


def give_back(limit: AdminLimit, transport: Transport) -> None:
    limit.give_back(cast("object", transport))  # type: ignore[arg-type]


def test_there_are_so_many_places_and_no_more() -> None:
    limit = AdminLimit(2)
    first, second, third = transports(3)
    assert take(limit, first)
    assert take(limit, second)
    assert not take(limit, third)
    give_back(limit, first)
    assert take(limit, third)
    assert not any(one.aborted for one in (first, second, third))


def test_who_has_waited_longest_for_its_client_is_closed_for_a_new_one() -> None:
    limit = AdminLimit(3)
    working, first, second, new, newer = transports(5)
    for one in (working, second, first):
        assert take(limit, one)
    wait(limit, first)
    wait(limit, second)
    assert take(limit, new)
    assert (first.aborted, second.aborted) == (True, False)
    assert take(limit, newer)
    assert (second.aborted, working.aborted) == (True, False)
    assert not take(limit, Transport())


def test_a_place_that_was_taken_away_is_given_back_once() -> None:
    limit = AdminLimit(1)
    old, new = transports(2)
    assert take(limit, old)
    wait(limit, old)
    assert take(limit, new)
    give_back(limit, old)
    assert len(limit) == 1
    give_back(limit, new)
    give_back(limit, new)
    assert len(limit) == 0


def test_of_the_address_with_the_most_the_one_that_has_waited_longest_gives_way() -> None:
    limit = AdminLimit(4)
    alone, first, second, third, *new = transports(8)
    for one, address in ((alone, "a"), (first, "b"), (second, "b"), (third, "b")):
        assert take(limit, one)
        wait(limit, one, address)
    for one, gives_way in zip(new, (first, second, alone), strict=False):
        assert take(limit, one)
        assert gives_way.aborted
    assert not third.aborted


def test_who_has_lost_its_place_does_not_wait_for_its_client() -> None:
    limit = AdminLimit(1)
    old, new = transports(2)
    assert take(limit, old)
    give_back(limit, old)
    wait(limit, old)
    assert take(limit, new)
    assert not take(limit, Transport())
