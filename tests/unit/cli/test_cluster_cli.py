"""`groupd cluster` beside a daemon that is alone."""

from __future__ import annotations

import pytest

from groupd.coordinator.cli.main import main
from tests.support.fake_admin import fake_admin


@pytest.mark.parametrize("words", [["describe"], ["drain", "0"], ["resume", "0"]])
def test_a_daemon_that_is_no_node(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with fake_admin({}) as admin, pytest.raises(SystemExit) as ended:
        main(["cluster", *words, "--admin", admin.address])
    assert ended.value.code == 2
    line = (
        f"the daemon at {admin.address} is no node of a cluster: it was started without --cluster"
    )
    assert capsys.readouterr() == ("", f"groupd: {line}\n")
