"""An admin port that asks for a token: the page does, too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser.page import Console, group_page
from tests.browser.readers import commit
from tests.support.daemon import Daemon, ends_well

READ, ADMIN = "a-token-that-may-read", "a-token-that-may-all"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """In the place of the one of all files: with tokens."""
    directory = tmp_path_factory.mktemp("closed")
    tokens = directory / "tokens"
    tokens.write_text(f"read {READ}\nadmin {ADMIN}\n")
    tokens.chmod(0o600)
    settings = {
        "groupd.admin.token.file": str(tokens),
        "groupd.admin.authentication": "always",
        "groupd.lag.interval.ms": "100",
    }
    running = Daemon(directory, topics={"orders": 1}, settings=settings)
    running.start()
    with ends_well(running):
        yield running


NO_DIALOG = "return document.querySelector('dialog') === null"
IN_DIALOG = """const node = document.activeElement;
    return node === document.body || node.closest('dialog') !== null"""


def sign_in(console: Console, token: str) -> None:
    console.write(".sign-in input", token)
    console.wait_for_focus("Token")
    console.browser.press("Enter")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_token_opens_the_page_for_this_tab(console: Console, theme: str) -> None:
    console.allowed = ["status of 401"]
    console.open(theme=theme)
    console.wait_for(".sign-in", "This admin port asks for a token.")
    console.wait_for_focus("Token")
    assert console.faults() == []
    assert not console.wider_than(380)
    sign_in(console, "a-token-that-is-wrong")
    console.wait_for(".sign-in", "The server does not accept this token.")
    sign_in(console, READ)
    console.wait_for("h1", "Groups")
    console.wait_for(".stream", "Live")
    console.browser.run("location.reload()")
    console.wait_for(".stream", "Live")  # the tab has kept it
    console.click("header button", "Sign out")
    console.wait_for(".sign-in", "You have signed out.")
    assert console.browser.run("return sessionStorage.length + document.cookie.length") == 0


def test_who_may_only_read_is_asked_for_another_token(console: Console, daemon: Daemon) -> None:
    console.allowed = ["status of 401", "status of 403"]
    commit(daemon.bootstrap, "billing", "orders", {0: 0})
    console.open(group_page("billing", "offsets"))
    sign_in(console, READ)
    console.wait_for("#move", "All 1")
    console.click("#move .targets label", "Offset")
    console.write("#move input[inputmode=numeric]", "7")
    console.click("#move button", "Preview")
    ask_for_another(console)
    assert console.faults() == []
    for _ in range(8):  # the keyboard stays in the dialog, whatever is on the page below
        console.browser.press("Tab")
        assert console.browser.run(IN_DIALOG)
    console.click(".sign-in button", "Go on as before")
    console.browser.wait(NO_DIALOG)
    assert form(console) == "7"
    ask_for_another(console)
    sign_in(console, "a-token-that-is-wrong")
    console.wait_for(".sign-in", "The server does not accept this token.")
    console.browser.press("Escape")  # with the token of before
    console.browser.wait(NO_DIALOG)
    assert form(console) == "7"
    ask_for_another(console)
    sign_in(console, ADMIN)
    console.browser.wait(NO_DIALOG)
    assert form(console) == "7"
    console.click("#move button", "Preview")
    console.wait_for("#preview", "Nothing would change.")
    console.click("header button", "Sign out")
    console.wait_for(".sign-in", "You have signed out.")
    assert "billing" not in console.text("main")
    console.browser.press("Escape", "Escape", "Escape")
    console.wait_for(".sign-in", "You have signed out.")


def ask_for_another(console: Console) -> None:
    console.click(".notice.error button", "Sign in with another token")
    console.wait_for(".sign-in", "Moving offsets takes a token with the role admin.")


def form(console: Console) -> object:
    """What stands in the field for an offset."""
    return console.browser.run("return document.querySelector('#move input[inputmode]').value")
