"""An admin port that answers what a test wants, for commands."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


class FakeAdmin:
    """`answers` by path; a path without an answer is 404. Of `/groups`, `after` and `limit` count,
    as a daemon has it, and a link leads to the next page. `asked`: what was asked for."""

    def __init__(self, answers: Mapping[str, Any], address: str) -> None:
        self.answers = dict(answers)
        self.address = address
        self.asked: list[str] = []

    def reply(self, target: str) -> tuple[int, bytes, dict[str, str]]:
        self.asked.append(target)
        url = urlsplit(target)
        if url.path not in self.answers:
            return 404, b"not found", {}
        answer, headers = self.answers[url.path], {}
        if url.path == "/groups":
            query = parse_qs(url.query)
            after, limit = query.get("after", [""])[0], int(query.get("limit", ["1000"])[0])
            behind = [row for row in answer if row["group_id"] > after]
            answer = behind[:limit]
            if len(behind) > limit:
                following = f"/groups?after={answer[-1]['group_id']}&limit={limit}"
                headers["Link"] = f'<{following}>; rel="next"'
        return 200, json.dumps(answer).encode(), headers


@contextmanager
def fake_admin(answers: Mapping[str, Any]) -> Iterator[FakeAdmin]:
    """A started one."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body, headers = fake.reply(self.path)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        fake = FakeAdmin(answers, f"127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield fake
        finally:
            server.shutdown()
            thread.join()


def group_row(group_id: str, **fields: Any) -> dict[str, Any]:
    """A row of `/groups`, of a group that is well unless told otherwise."""
    return {
        "group_id": group_id,
        "type": "consumer",
        "state": "Stable",
        "members": 2,
        "lag": 0,
        "lag_seconds": 0.0,
        "judgement": "ok",
        "last_rebalance": None,
        **fields,
    }
