"""Moving the offsets of a group on its page: what would be done, the question, what was done."""

from __future__ import annotations

import pytest

from tests.browser.page import Console, group_page
from tests.browser.readers import Reader, commit, produce
from tests.support.daemon import Daemon

TOPIC = "orders"
RECORDS = 40


@pytest.fixture(scope="module", autouse=True)
def _records(daemon: Daemon) -> None:
    for partition in range(2):
        produce(daemon.bootstrap, TOPIC, partition, RECORDS)


def opened(console: Console, daemon: Daemon, group: str) -> None:
    commit(daemon.bootstrap, group, TOPIC, {0: 30, 1: 10})
    console.open(group_page(group, "offsets"))
    console.wait_for("#move", "All 2")


def applied(console: Console) -> None:
    # An earlier preview stays until the new one is there, and cannot be applied meanwhile.
    console.browser.wait("return document.querySelector('#preview .danger:enabled') !== null")
    console.click("#preview button", "Apply …")
    console.wait_for("dialog", "Move the offsets of")
    console.click("dialog button", "Move them")
    console.wait_for("#preview", "Done.")


def test_a_reset_is_shown_then_asked_then_done(console: Console, daemon: Daemon) -> None:
    opened(console, daemon, "back")
    console.click("#move label", "Earliest")
    console.click("#move button", "Preview")
    console.wait_for("#preview", "What would be done 2 partitions to move, 0 to stay")
    console.wait_for("#preview", "40 records are read again.")
    assert "orders-0 30 read again 30 0 rewind" in console.text("#preview tbody")
    console.click("#preview button", "Apply …")
    console.wait_for("dialog", "Move the offsets of back?")
    console.wait_for_focus("Cancel")
    console.click("dialog button", "Cancel")
    console.wait_for("#preview", "What would be done")
    applied(console)
    console.wait_for("#moves tbody", "30 0 −30 a tool; the group had no members")
    console.click(".tabs a", "Now")
    console.wait_for(console.row("orders-0"), "rewound 0 40 40")
    console.click(".notice.warning a", "Who moved it, and how to restore it")
    console.click("#moves tbody button", "Restore to before")
    console.click("#move button", "Preview")
    console.wait_for("#preview tbody", "orders-0 30 skipped 0 30 commit")


def test_some_partitions_by_a_number_of_records(console: Console, daemon: Daemon) -> None:
    opened(console, daemon, "some")
    console.click("#move label", "Shift")
    console.wait_for("#move .actions", "Enter a whole number.")
    console.write("#move .field input", "-5")
    console.click("#move label", "Some")
    console.click(f"{console.row('orders-1')} label", "orders-1")
    console.wait_for("#move", "Some: 1 partition chosen")
    console.click("#move button", "Preview")
    console.wait_for("#preview tbody", "orders-0 5 read again 30 25 rewind")
    assert len(console.texts("#preview tbody tr")) == 1
    applied(console)


def test_a_restore_brings_back_what_was_committed_at_a_time(
    console: Console, daemon: Daemon
) -> None:
    opened(console, daemon, "undone")
    # The field has whole seconds, so the later commit must be in a later one.
    console.browser.run("window.then = Math.ceil(Date.now() / 1000) * 1000")
    console.browser.wait("return Date.now() > window.then")
    then = console.browser.run(
        """const local = new Date(window.then - new Date().getTimezoneOffset() * 60000);
        return local.toISOString().slice(0, 19)"""
    )
    commit(daemon.bootstrap, "undone", TOPIC, {0: 1, 1: 1})
    console.click("#move label", "Restore")
    console.write("#move .field input", then)
    console.click("#move button", "Preview")
    console.wait_for("#preview tbody", "orders-0 29 skipped 1 30 commit")
    applied(console)


def test_a_group_with_members_is_refused(console: Console, daemon: Daemon) -> None:
    with Reader(daemon.bootstrap, "busy", "worker", [TOPIC]):
        console.to_group("busy")
        console.wait_until_stable(1)
        console.wait_for(console.row("orders-0"), "ok 40 40 0")
        console.click(".tabs a", "Offsets")
        console.wait_for(".notice.warning", "The group is Stable: it has members.")
        console.click("#move button", "Preview")
        console.wait_for("#preview .actions", "it has members")
        disabled = "return document.querySelector('#preview button.danger').disabled"
        assert console.browser.run(disabled) is True
    # The member has stopped, and the page has seen it.
    console.browser.wait("return document.querySelector('.notice.warning') === null")
    console.click("#move button", "Preview")
    applied(console)


def test_members_that_came_since_the_preview_are_seen(console: Console, daemon: Daemon) -> None:
    opened(console, daemon, "raced")
    console.click("#move button", "Preview")
    console.wait_for("#preview", "What would be done")
    console.allowed = ["status of 409"]
    with Reader(daemon.bootstrap, "raced", "quick", [TOPIC]) as quick:
        console.browser.wait(
            """return fetch('/groups/raced').then((reply) => reply.json())
            .then((group) => group.members.length === 1)"""
        )
        quick.hang()
        console.click("#preview button", "Apply …")
        console.click("dialog button", "Move them")
        console.wait_for(".notice.error", "it has members")
        console.wait_for("#move", "All 2")
        assert console.texts("#preview") == [], "what was shown may not be true any more"


def test_an_offset_that_has_moved_since_the_preview_is_not_overwritten(
    console: Console, daemon: Daemon
) -> None:
    opened(console, daemon, "stale")
    console.click("#move button", "Preview")
    console.wait_for("#preview", "What would be done")
    commit(daemon.bootstrap, "stale", TOPIC, {1: 11})
    console.allowed = ["status of 409"]
    console.click("#preview button", "Apply …")
    console.click("dialog button", "Move them")
    console.wait_for(".notice.error", "1 offset moved since that was shown, such as orders-1")
    assert console.texts("#preview") == []
    console.click("#move label", "Some")
    console.wait_for(console.row("orders-1"), "orders-1 11 29")
    console.click("#move button", "Preview")
    console.wait_for("#preview tbody", "orders-1 11 read again 11 0 rewind")


def test_the_answer_to_an_earlier_question_is_not_shown(console: Console, daemon: Daemon) -> None:
    opened(console, daemon, "slow")
    console.browser.run(
        """const send = window.fetch;
        window.fetch = async (path, init) => {
          if (init?.method !== 'POST') return send(path, init);
          await new Promise((goOn) => { window.goOn = goOn; });
          const reply = await send(path, init);
          window.fetch = send;
          setTimeout(() => { window.answered = true; });
          return reply;
        }"""
    )
    console.click("#move button", "Preview")
    console.wait_for("#move button", "Asking …")
    console.click("#move label", "Latest")
    console.browser.wait("window.goOn?.(); return window.answered === true")
    console.browser.run_async("requestAnimationFrame(() => requestAnimationFrame(done))")
    assert console.texts("#preview") == []
    console.click("#move button", "Preview")
    console.wait_for("#preview", "What would be done")
    console.wait_for("#preview tbody", "orders-0 10 skipped 30 40 forward")


def test_all_and_some_are_the_same_partitions(console: Console, daemon: Daemon) -> None:
    """Those with an offset, although the member has others, too."""
    commit(daemon.bootstrap, "half", TOPIC, {0: 30})
    with Reader(daemon.bootstrap, "half", "worker", [TOPIC], **{"enable.auto.commit": False}):
        console.to_group("half")
        console.wait_until_stable(1)
        console.click(".tabs a", "Offsets")
        console.wait_for("#move", "All 1 that have an offset")
        console.click("#move label", "Some")
        console.wait_for("#move", "Some: 1 partition chosen")
        console.wait_for(console.row("orders-1"), "orders-1 none")
        console.click(f"{console.row('orders-1')} label", "orders-1")
        console.click("#move button", "Preview")
        console.wait_for(
            "#preview", "30 records are read again; 1 partition gets its first offset."
        )


def test_a_restore_that_deletes_says_that_partitions_start_anew(
    console: Console, daemon: Daemon
) -> None:
    opened(console, daemon, "anew")
    console.click("#move label", "Restore")
    console.write("#move .field input", "2001-01-01T00:00:00")
    console.click("#move label", "Delete the offsets")
    console.click("#move button", "Preview")
    console.wait_for("#preview", "2 partitions start anew, where auto.offset.reset says.")
    applied(console)


def hold_partitions(console: Console) -> None:
    """Until `window.goOn()` the page waits for the partitions. It gets none if `window.failing`."""
    console.browser.run(
        """const send = window.fetch;
        window.fetch = async (path, init) => {
          if (path.endsWith('/offsets')) {
            await new Promise((goOn) => { window.goOn = goOn; });
            if (window.failing) throw new TypeError('Failed to fetch');
          }
          return send(path, init);
        }"""
    )


def test_the_form_is_there_before_the_partitions_are_read(console: Console, daemon: Daemon) -> None:
    """A large group has very many, and most moves do without the list."""
    commit(daemon.bootstrap, "many", TOPIC, {0: 30, 1: 10})
    console.open()
    hold_partitions(console)
    console.go(group_page("many", "offsets"))
    console.wait_for("#move label", "Some (the partitions are being read …)")
    assert console.browser.run("return document.querySelectorAll('#move :disabled').length") == 1
    console.click("#move button", "Preview")
    console.wait_for("#preview", "2 partitions to move")
    console.browser.run("window.goOn()")
    console.wait_for("#move", "All 2 that have an offset")
    console.click("#move label", "Some")
    console.wait_for("#move", "Some: 2 partitions chosen")


def test_the_form_stays_when_the_partitions_cannot_be_read(
    console: Console, daemon: Daemon
) -> None:
    commit(daemon.bootstrap, "unread", TOPIC, {0: 30, 1: 10})
    console.open()
    hold_partitions(console)
    console.browser.run("window.failing = true")
    console.go(group_page("unread", "offsets"))
    console.wait_for("#move label", "Some (the partitions are being read …)")
    console.click("#move label", "Shift")
    console.write("#move [inputmode=numeric]", "-5")
    console.browser.run("window.goOn()")
    console.wait_for("#move label", "Some (the partitions could not be read)")
    shift = "return document.querySelector('#move [inputmode=numeric]').value"
    assert console.browser.run(shift) == "-5"
    console.browser.run("window.failing = false")
    console.click(".notice button", "Read the partitions again")
    console.wait_for("#move label", "Some (the partitions are being read …)")
    console.browser.run("window.goOn()")
    console.wait_for("#move", "All 2 that have an offset")
    assert console.browser.run(shift) == "-5"
