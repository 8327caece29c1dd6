"""What clients are told where nothing is advertised."""

from __future__ import annotations

import pytest

from groupd.coordinator.advertised import advertised_address


@pytest.mark.parametrize(
    ("listen", "bound", "told"),
    [
        ("127.0.0.1", "127.0.0.1", "127.0.0.1"),
        ("10.1.2.3", "10.1.2.3", "10.1.2.3"),
        ("::1", "::1", "::1"),
        ("broker.example", "10.1.2.3", "broker.example"),
        ("localhost", "::1", "localhost"),
        ("", "0.0.0.0", "127.0.0.1"),
        ("0.0.0.0", "0.0.0.0", "127.0.0.1"),
        ("::", "::", "::1"),
        ("0:0:0:0:0:0:0:0", "::", "::1"),
    ],
)
def test_names_stay_and_wildcards_go(listen: str, bound: str, told: str) -> None:
    assert advertised_address(listen, (bound, 9092), None) == (told, 9092)


def test_what_is_advertised_wins() -> None:
    address = ("kafka.example", 19092)
    assert advertised_address("broker.example", ("10.1.2.3", 9092), address) == address
