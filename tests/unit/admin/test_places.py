"""Places on the admin port: who gets one, and who loses it."""

from __future__ import annotations

from typing import cast

from groupd.coordinator.admin.places import Places


class Transport:
    """As much of a transport as places know."""

    def __init__(self) -> None:
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


def transports(count: int) -> list[Transport]:
    return [Transport() for _ in range(count)]


def take(places: Places, transport: Transport) -> bool:
    return places.take(cast("object", transport))  # type: ignore[arg-type]


def wait(places: Places, transport: Transport, address: str = "") -> None:
    places.wait_for_client(cast("object", transport), address)  # type: ignore[arg-type]


def give_back(places: Places, transport: Transport) -> None:
    places.give_back(cast("object", transport))  # type: ignore[arg-type]


def test_there_are_so_many_places_and_no_more() -> None:
    places = Places(2)
    first, second, third = transports(3)
    assert take(places, first)
    assert take(places, second)
    assert not take(places, third)
    give_back(places, first)
    assert take(places, third)
    assert not any(one.aborted for one in (first, second, third))


def test_who_has_waited_longest_for_its_client_is_closed_for_a_new_one() -> None:
    places = Places(3)
    working, first, second, new, newer = transports(5)
    for one in (working, second, first):
        assert take(places, one)
    wait(places, first)
    wait(places, second)
    assert take(places, new)
    assert (first.aborted, second.aborted) == (True, False)
    assert take(places, newer)
    assert (second.aborted, working.aborted) == (True, False)
    assert not take(places, Transport())


def test_a_place_that_was_taken_away_is_given_back_once() -> None:
    places = Places(1)
    old, new = transports(2)
    assert take(places, old)
    wait(places, old)
    assert take(places, new)
    give_back(places, old)
    assert len(places) == 1
    give_back(places, new)
    give_back(places, new)
    assert len(places) == 0


def test_of_the_address_with_the_most_the_one_that_has_waited_longest_gives_way() -> None:
    places = Places(4)
    alone, first, second, third, *new = transports(8)
    for one, address in ((alone, "a"), (first, "b"), (second, "b"), (third, "b")):
        assert take(places, one)
        wait(places, one, address)
    for one, gives_way in zip(new, (first, second, alone), strict=False):
        assert take(places, one)
        assert gives_way.aborted
    assert not third.aborted


def test_who_has_lost_its_place_does_not_wait_for_its_client() -> None:
    places = Places(1)
    old, new = transports(2)
    assert take(places, old)
    give_back(places, old)
    wait(places, old)
    assert take(places, new)
    assert not take(places, Transport())
