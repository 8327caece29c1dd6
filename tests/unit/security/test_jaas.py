"""Kafka's notation of login modules."""

from __future__ import annotations

import pytest

from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.security.sasl.jaas import PLAIN_MODULE, parse_jaas, static_users


def users(options: str) -> dict[str, str]:
    return static_users(parse_jaas(f"{PLAIN_MODULE} required {options};", "key"))


def test_users_of_plain() -> None:
    found = users('username="broker" password="x"\n user_alice="alice\'s; =\\"pw\\""  user_bob=b0b')
    assert found == {"alice": 'alice\'s; ="pw"', "bob": "b0b"}


def test_single_quotes_and_no_options() -> None:
    assert users("user_a='x y'") == {"a": "x y"}
    assert parse_jaas(f"{PLAIN_MODULE} required;", "key").options == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "Module required",
        'Module sometimes user_a="secret-pw";',
        'Module required user_a "secret-pw";',
        'Module required user_a="secret-pw" user_a="secret-pw";',
        'Module required user_a="secret-pw',
        'Module required user_a="secret-pw"; Other required user_b="secret-pw";',
        'Module required ="secret-pw";',
    ],
)
def test_errors_are_one_line_without_the_password(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_jaas(text, "listener.name.x.plain.sasl.jaas.config")
    message = str(caught.value)
    assert message.startswith("listener.name.x.plain.sasl.jaas.config: ")
    assert "\n" not in message
    assert "secret-pw" not in message


def test_a_module_does_not_show_its_passwords() -> None:
    assert "secret-pw" not in repr(parse_jaas('M required user_a="secret-pw";', "key"))
