"""How an attacker comes in: before the login and behind it, in plain and over TLS."""

from __future__ import annotations

import selectors
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle
from typing import NamedTuple

from tests.attack.scene import Ended, Link, Scene
from tests.support.raw import frame
from tests.support.sasl_client import PASSWORDS
from tests.support.sasl_frames import authenticate, handshake

USER = "alice"
_CHUNK = 1 << 17
_ANSWERED_S = 0.2
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Entry(NamedTuple):
    """A listener that wants a login, with or without TLS. `logged_in`: the attacker has one."""

    name: str
    secure: bool = False
    logged_in: bool = False


BEFORE = Entry("before the login")
BEFORE_TLS = Entry("before the login, TLS", secure=True)
INSIDE = Entry("logged in", logged_in=True)
INSIDE_TLS = Entry("logged in, TLS", secure=True, logged_in=True)
ENTRIES = (BEFORE, BEFORE_TLS, INSIDE, INSIDE_TLS)


def login(user: str = USER, password: str = PASSWORDS[USER]) -> bytes:
    """The frames of a login with PLAIN."""
    return frame(handshake("PLAIN")) + frame(authenticate(f"\0{user}\0{password}".encode()))


def comes_in(scene: Scene, entry: Entry) -> Callable[[], Link]:
    """Makes one connection after the other, each to the next node. It raises Ended."""
    context = scene.victim.tls() if entry.secure else None
    doors = cycle(scene.victim.doors)

    def one() -> Link:
        door = next(doors)
        link = scene.link_to(door.secure_login if context is not None else door.login)
        if context is not None:
            link.secure(context)
        if entry.logged_in:
            link.send(login())
            link.skip_reply()
            link.skip_reply()
        return link

    return one


def all_in(scene: Scene, entry: Entry, count: int) -> list[Link]:
    """So many connections, or as many of them as the broker takes in half of the time."""
    made, one = [], comes_in(scene, entry)
    half_s = scene.left_s / 2
    for _ in range(count):
        if scene.left_s < half_s:
            break
        try:
            made.append(one())
        except Ended:
            continue
    return made


def pour(
    scene: Scene,
    links: Iterable[Link],
    data: bytes | Callable[[Link], bytes],
    *,
    again: Callable[[], Link] | None = None,
    endless: bool = False,
) -> None:
    """Sends the data over all links at once, each as fast as the broker takes it; answers are
    thrown away. It ends with the attack, or once all links have ended or were sent all of it.
    `again`: makes a link in the place of one that has ended. `endless`: the data again and
    again."""
    view: dict[Link, memoryview] = {}
    sent: dict[Link, int] = {}
    with selectors.DefaultSelector() as selector:

        def add(link: Link) -> None:
            view[link] = memoryview(data if isinstance(data, bytes) else data(link))
            sent[link] = 0
            selector.register(link, _READ | _WRITE)

        def drop(link: Link) -> None:
            selector.unregister(link)
            del view[link], sent[link]
            scene.got.closed += 1
            link.close()

        for link in links:
            add(link)
        while scene.go_on() and any(sent[link] < len(view[link]) for link in sent):
            for key, events in selector.select(min(scene.left_s, _ANSWERED_S)):
                link = key.fileobj  # type: ignore[assignment]
                if events & _READ and link.is_closed():
                    drop(link)
                    if again is not None:
                        _try(lambda: add(again()))
                elif events & _WRITE:
                    at = sent[link]
                    at += link.send_some(view[link][at : at + _CHUNK])  # type: ignore[arg-type]
                    if at == len(view[link]):
                        if endless:
                            at = 0
                        else:
                            selector.modify(link, _READ)
                    sent[link] = at


def _try(act: Callable[[], object]) -> None:
    try:
        act()
    except Ended:
        return


def answers(scene: Scene, links: Sequence[Link], within_s: float) -> dict[Link, bytes]:
    """What each link is sent until it ends or nothing comes for that long."""
    got = {link: bytearray() for link in links}
    with selectors.DefaultSelector() as selector:
        for link in links:
            selector.register(link, _READ)
        while scene.go_on() and selector.get_map():
            found = selector.select(within_s)
            if not found:
                break
            for key, _ in found:
                link = key.fileobj  # type: ignore[assignment]
                try:
                    got[link] += link.receive_some()
                except Ended:
                    selector.unregister(link)
    return {link: bytes(data) for link, data in got.items()}
