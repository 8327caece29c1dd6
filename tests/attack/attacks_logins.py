"""Attacks on logins, on the admin port and on quotas. Most have a bar of their own."""

from __future__ import annotations

import http.client
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from groupd.protocol.records.batch_builder import encode_batch
from tests.attack import frames
from tests.attack.attack import Attack
from tests.attack.doors import (
    GUESSED,
    GUESSED_PASSWORD,
    METERED,
    METERED_PASSWORD,
    QUOTA,
)
from tests.attack.entries import BEFORE, all_in, answers, comes_in, login, pour
from tests.attack.honest_clients import TOPIC
from tests.attack.scene import Ended, Link, Scene
from tests.support.raw import frame
from tests.support.sasl_frames import authenticate, handshake
from tests.support.tokens import claims, message, unsigned

TOKEN_BYTES = 400_000
TOKENS_AT_ONCE = 200
GUESSES = 3000
GUESSES_MAX = 750
"""groupd.authentication.failures.per.ip allows 500 at once, and 50 more each second."""
NEIGHBOURS_GUESSES, NEIGHBOURS_S = 550, 10.0
WINDOW_S = 10.0
WRONG_TOKENS = 12
PRODUCERS, BATCH_BYTES = 8, 20_000
SAMPLES_S = 11
"""Kafka's quotas look at so many seconds, so a producer may send as much at once."""
_PATIENCE_S = 4.0
_ERROR_AT = 4 + 4
"""Where the error stands in a reply with its length."""
_PRODUCED_AT = 4 + 1 + 1 + 1 + len(TOPIC) + 1 + 4
"""Where it stands in a reply to a Produce of one partition."""


def large_tokens(scene: Scene, _: Any) -> None:
    """Connections that send a token with a wrong signature and leave at once."""
    padded = claims(iat=0, exp=1 << 32, pad="x" * (TOKEN_BYTES * 3 // 4))
    token = unsigned({"alg": "ES256", "kid": "k1"}, padded, bytes(64))
    sent = frame(authenticate(message(token)))
    begun = frame(handshake("OAUTHBEARER"))
    count = 0
    while scene.go_on():
        links = all_in(scene, BEFORE, TOKENS_AT_ONCE)
        for link in links:
            link.send_some(begun)
        for link in links:
            # What was not read when it leaves would take the token with it.
            with suppress(Ended):
                link.skip_reply()
        pour(scene, links, sent)
        count += len(links)
        for link in links:
            link.close()
    scene.got.note = f"{count:,} tokens of {len(token):,} bytes"


def _answered(scene: Scene, links: Sequence[Link]) -> list[int]:
    """The errors of the logins that were answered; 0 for one that has succeeded."""
    found = []
    for data in answers(scene, links, _PATIENCE_S).values():
        at = 4 + int.from_bytes(data[:4]) if len(data) >= 4 else 0
        if at and len(data) >= at + _ERROR_AT + 2:
            found.append(struct.unpack_from(">h", data, at + _ERROR_AT)[0])
    return found


def guesses(scene: Scene, _: Any) -> None:
    """All connections are made first, then all send a password, one in ten the right one."""
    links = all_in(scene, BEFORE, GUESSES)
    began = time.monotonic()
    for number, link in enumerate(links):
        link.send_some(login(GUESSED, "wrong" if number % 10 else GUESSED_PASSWORD))
    found = _answered(scene, links)
    scene.got.note = (
        f"{len(found):,} of {len(links):,} guesses answered in {time.monotonic() - began:.1f} s,"
        f" {found.count(0)} of them were right"
    )
    if len(found) > GUESSES_MAX:
        scene.got.missed.append(f"{len(found):,} guesses judged")


def guesses_of_a_neighbour(scene: Scene, _: Any) -> None:
    """Wrong logins as one user, from the address of honest clients, who log in as another one."""
    asked = login(GUESSED, "wrong")
    one = comes_in(scene, BEFORE)
    links: list[Link] = []
    each_s = 0.4 * min(scene.seconds, NEIGHBOURS_S) / NEIGHBOURS_GUESSES
    while scene.go_on() and len(links) < NEIGHBOURS_GUESSES:
        with suppress(Ended):
            links.append(one())
            links[-1].send_some(asked)
        scene.rest(each_s)
    scene.got.note = f"{len(_answered(scene, links))} of {len(links)} wrong logins answered"
    scene.rest(scene.left_s)


def wrong_tokens(scene: Scene, _: Any) -> None:
    """Twelve wrong tokens of the admin port, twice a second."""
    statuses: list[int] = []
    while scene.go_on():
        for number in range(WRONG_TOKENS):
            head = {"Authorization": f"Bearer wrong-token-number-{number:04}"}
            statuses.append(_page(scene, "/", head)[0])
        scene.rest(0.5)
    shown = ", ".join(f"{statuses.count(one)} x {one}" for one in sorted(set(statuses)))
    scene.got.note = f"answers: {shown}"


def foreign_host(scene: Scene, _: Any) -> None:
    """What a page from elsewhere asks, whose name has become the address of the admin port."""
    shown = 0
    while scene.go_on():
        status, body = _page(scene, "/metrics", {"Host": "page.from.elsewhere.test"})
        shown += status == 200
        if status == 200 and not scene.got.missed:
            scene.got.missed.append(f"/metrics was shown to it: {len(body):,} bytes")
        if _page(scene, "/metrics", {"Host": "127.0.0.1"})[0] != 200:
            scene.got.missed.append("/metrics was not shown by its address")
            break
        scene.rest(0.5)
    scene.got.note = f"{shown} times /metrics"


def _page(scene: Scene, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
    """The status and the body; 0 if it was not answered."""
    connection = http.client.HTTPConnection(*scene.victim.doors[0].admin, timeout=20)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()


def debtors(scene: Scene, _: Any) -> None:
    """Producers of a user with a quota, who come anew for each batch."""
    victim = scene.victim
    door = victim.doors[victim.nodes.index(victim.leader(TOPIC))]
    batch = encode_batch(0, -1, 1_700_000_000_000, [(None, bytes(BATCH_BYTES))])
    asked = login(METERED, METERED_PASSWORD) + frames.produce(TOPIC, batch, partition=0)
    taken = 0
    while scene.go_on():
        links = []
        for _ in range(PRODUCERS):
            try:
                link = scene.link_to(door.login)
                link.send(asked)
                links.append(link)
            except Ended:
                continue
        for link in links:
            try:
                link.skip_reply()
                link.skip_reply()
                taken += not any(link.reply()[_PRODUCED_AT:][:2])
            except Ended:
                continue
            finally:
                link.close()
    rate = taken * BATCH_BYTES / scene.seconds
    scene.got.note = f"{rate:,.0f} bytes/s with a quota of {QUOTA:,}"
    most = QUOTA * (scene.seconds + SAMPLES_S) + 2 * PRODUCERS * BATCH_BYTES
    if taken * BATCH_BYTES > most:
        scene.got.missed.append(f"{rate:,.0f} bytes/s with a quota of {QUOTA:,}")


def _attack(
    name: str, what: str, run: Any, at_least_s: float = 0.0, short_s: float = 0.0
) -> Attack:
    return Attack(
        name,
        what,
        run,
        peers=("groupd",),
        doors=True,
        from_issue=True,
        short_s=short_s,
        at_least_s=at_least_s,
    )


ATTACKS = (
    _attack(
        "large tokens",
        f"OAUTHBEARER tokens of {TOKEN_BYTES // 1000} KB with a wrong signature from connections"
        " that leave at once",
        large_tokens,
        20.0,
    ),
    _attack(
        "guesses, connections first",
        f"{GUESSES:,} connections made first, then a password from each, one in ten the right one",
        guesses,
        15.0,
        3.0,
    ),
    _attack(
        "guesses of a neighbour",
        f"{NEIGHBOURS_GUESSES} wrong logins in {NEIGHBOURS_S:.0f} s from the address of honest"
        " clients, as another user",
        guesses_of_a_neighbour,
    ),
    _attack("wrong admin tokens", f"{WRONG_TOKENS} wrong tokens twice a second", wrong_tokens),
    _attack("foreign Host", "/metrics by a name that nobody has allowed", foreign_host),
    _attack(
        "producers in debt",
        f"{PRODUCERS} producers with a quota of {QUOTA // 1000} KB/s that come anew for each batch",
        debtors,
    ),
)
