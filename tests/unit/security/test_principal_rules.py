"""Principals from subjects of certificates (`docs/spec/security.md#1.2`, SE-08)."""

from __future__ import annotations

import pytest

from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.security.certificates import PrincipalRules

ACME = "RULE:^CN=(.*?),O=Acme.*$/$1/L"


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("DEFAULT", "CN=a,O=b", "CN=a,O=b"),
        ("", "CN=a", "CN=a"),
        (f"{ACME},DEFAULT", "CN=Alice,O=Acme,C=DE", "alice"),
        (f" {ACME} , DEFAULT ", "CN=x,O=Other", "CN=x,O=Other"),
        (ACME, "CN=x,O=Other", None),
        ("RULE:CN=(.*)/$1/U", "CN=a\u00e4", "A\u00c4"),
        ("RULE:CN=a/x/", "CN=ab", None),
        ("RULE:CN=b/x/", "CN=ab", None),
        (r"RULE:CN=(.*)\/(.*)\/(.*)/$3\/$12$9$0/", "CN=a/b/c", "c/a2$9CN=a/b/c"),
        (r"RULE:(.*)/\$1$1/", "a", "$1a"),
        ("RULE:(a)|(b)/$2-/", "a", "-"),
        ("RULE:a/1/,RULE:a/2/", "a", "1"),
        ("RULE:CN=(.*),OU=(.*),O=.*/$1@$2/", "CN=n,OU=u,O=o", "n@u"),
    ],
)
def test_names(rules: str, subject: str, name: str | None) -> None:
    assert PrincipalRules(rules).name_of(subject) == name


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "RULE:a/b",
        "RULE:a",
        "RULE:a/b/X",
        "RULE:a/b/LU",
        "DEFAULT DEFAULT",
        "RULE:(/b/",
        "RULE:a(?=b)/x/",
        "DEFAULT,,DEFAULT",
    ],
)
def test_what_is_no_rule_ends_the_start(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalRules(rules)


def test_a_pattern_that_re2_does_not_know_is_told_in_words() -> None:
    with pytest.raises(ConfigError) as caught:
        PrincipalRules("RULE:^CN=(?<=x)/a/")
    assert str(caught.value).endswith(
        "the pattern ^CN=(?<=x) cannot be used: invalid perl operator: (?<="
    )
