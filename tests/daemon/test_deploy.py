"""What is in deploy/ works as its comments say: the sample of a config file, the systemd unit."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from groupd.coordinator.cli.parse import build_config, config_file
from groupd.coordinator.config.coordinator_config import CoordinatorConfig, settings_of
from groupd.coordinator.server.descriptors import RESERVED
from tests.support.daemon import ROOT, Daemon

DEPLOY = ROOT / "deploy"
SAMPLE = DEPLOY / "groupd.toml"
SETTING = re.compile(r'^#(?="?[a-z.]+"? = )', re.MULTILINE)
PLACES = re.compile(r"(?<![\w.])/(?=etc/|opt/|var/lib/)")


class InstalledDaemon(Daemon):
    """A daemon that is started with the command line of the unit."""

    def __init__(self, directory: Path, arguments: list[str]) -> None:
        super().__init__(directory)
        self._unit_arguments = arguments

    def command(self) -> list[str]:
        free = ["--listen", f"{self.host}:{self.port}", "--admin", f"{self.host}:{self.admin_port}"]
        return [sys.executable, "-m", "groupd", *self._unit_arguments, *free]


def unit_value(name: str) -> str:
    (value,) = re.findall(rf"^{name}=(.*)$", (DEPLOY / "groupd.service").read_text(), re.MULTILINE)
    assert isinstance(value, str)
    return value


def test_the_sample_changes_nothing_as_it_is_shipped() -> None:
    assert config_file(SAMPLE) == {}
    assert build_config(SAMPLE, []) == CoordinatorConfig()


def test_every_line_of_the_sample_is_a_setting_with_its_default(tmp_path: Path) -> None:
    path = tmp_path / "all.toml"
    path.write_text(SETTING.sub("", SAMPLE.read_text()))
    shown = config_file(path)
    defaults = settings_of(CoordinatorConfig())
    assert shown == {key: defaults[key] for key in shown}
    assert build_config(path, []) == CoordinatorConfig()
    common = re.search(
        r"^## Configuration\n(.*?)^## ",
        (ROOT / "docs" / "serve.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    assert common is not None
    keys = set(re.findall(r"^\| `([\w.]+)` \|", common[1], re.MULTILINE))
    assert len(keys) >= 10
    assert keys <= shown.keys()


def test_the_unit_starts_after_the_commands_that_it_documents(tmp_path: Path) -> None:
    """Runs all of the commands but pip's and systemctl's, below a directory instead of /."""
    text = (DEPLOY / "groupd.service").read_text()
    commands = re.findall(r"^#   (\S.*)$", text, re.MULTILINE)
    installs = [command for command in commands if command.startswith("install ")]
    others = {shlex.split(command)[0] for command in commands if command not in installs}
    assert others == {"python3", "/opt/groupd/bin/pip", "systemctl"}
    root = f"{tmp_path}/"
    for command in installs:
        subprocess.run(["bash", "-euc", PLACES.sub(root, command)], cwd=ROOT, check=True)
    assert (tmp_path / "etc/systemd/system/groupd.service").read_text() == text
    # Made by systemd, which owns it.
    assert unit_value("StateDirectory") == "groupd"
    (tmp_path / "var/lib/groupd").mkdir(parents=True)

    program, *arguments = shlex.split(PLACES.sub(root, unit_value("ExecStart")))
    assert program == f"{root}opt/groupd/bin/groupd"
    daemon = InstalledDaemon(tmp_path / "output", arguments)
    try:
        daemon.start()
        assert (tmp_path / "var/lib/groupd/groupd.sqlite").is_file()
        daemon.stop()
    finally:
        daemon.close()


def test_the_unit_and_the_containers_have_limits() -> None:
    needed = CoordinatorConfig().max_connections + RESERVED
    assert int(unit_value("LimitNOFILE")) >= needed
    assert re.fullmatch(r"\d+G", unit_value("MemoryMax"))
    for name in ("compose.yaml", "compose.postgres.yaml"):
        # Each service that has an image has a limit; the others change one of another file.
        text = (DEPLOY / name).read_text().partition("\nvolumes:")[0]
        services = re.split(r"^  (?=\w[\w-]*:$)", text, flags=re.MULTILINE)
        for service in services[1:]:
            if "image:" in service or "build:" in service:
                assert re.search(r"^    mem_limit: \d+g$", service, re.MULTILINE), service
    (descriptors,) = re.findall(r"nofile: (\d+)", (DEPLOY / "compose.yaml").read_text())
    assert int(descriptors) >= needed


def test_what_the_unit_calls_final_is_the_exit_code_of_a_wrong_setting(tmp_path: Path) -> None:
    wrong = tmp_path / "groupd.toml"
    wrong.write_text(SAMPLE.read_text() + "\nmax.connectoins = 5\n")
    done = subprocess.run(
        [sys.executable, "-m", "groupd", "serve", "--config", str(wrong)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == int(unit_value("RestartPreventExitStatus"))
    assert len(done.stderr.splitlines()) == 1
    assert "max.connectoins" in done.stderr
