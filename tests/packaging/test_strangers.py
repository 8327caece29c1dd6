"""An installed groupd beside the code of somebody whose packages have the names of its folders."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import pytest

from tests.support.distributions import FOLDERS, Distributions, run

TESTS = """\
import sys

import coordinator, pipeline, protocol, storage
from groupd.testing import GroupCoordinator


def test_their_own_packages():
    for package in (coordinator, pipeline, protocol, storage):
        assert package.WHOSE == "ours", package.__file__


def test_the_fixture(groupd):
    groupd.create_topic("orders", 3)
    groupd.produce("orders", ["coffee"])
    assert [record.value for record in groupd.records("orders")] == [b"coffee"]


def test_what_pytest_has_rewritten(groupd):
    hooks = {name: type(module.__spec__.loader).__name__ for name, module in sys.modules.items()
             if name.partition(".")[0] == "groupd"}
    assert len(hooks) > 100
    rewritten = [name for name, hook in hooks.items() if hook == "AssertionRewritingHook"]
    assert sorted(rewritten) == ["groupd", "groupd.testing", "groupd.testing.pytest_plugin"]


def test_a_broker_in_a_process_of_its_own():
    with GroupCoordinator.start({"orders": 3}, process=True) as broker:
        assert broker.topics() == {"orders": 3}
"""


class Project:
    """A directory with the four packages and a test, and an environment of its own, in which the
    wheel is installed; the dependencies are those of this test run."""

    def __init__(self, directory: Path, wheel: Path) -> None:
        self.directory = directory / "project"
        for name in FOLDERS:
            (self.directory / name).mkdir(parents=True)
            (self.directory / name / "__init__.py").write_text('WHOSE = "ours"\n')
        (self.directory / "test_orders.py").write_text(TESTS)
        environment = directory / "environment"
        run(sys.executable, "-m", "venv", "--without-pip", str(environment), cwd=directory)
        self.programs = environment / "bin"
        pip = (sys.executable, "-m", "pip", "--quiet")
        install = ("--python", str(self.programs / "python"), "install", "--no-deps", "--no-index")
        run(*pip, *install, str(wheel), cwd=directory)
        (packages,) = environment.glob("lib/python3.*/site-packages")
        (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def run(self, program: str, *arguments: str) -> str:
        return run(str(self.programs / program), *arguments, cwd=self.directory)


@pytest.fixture(scope="module")
def project(made: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("stranger"), made.path)


def test_its_pytest_runs_with_the_fixture(project: Project) -> None:
    output = project.run("python", "-m", "pytest", "-p", "no:cacheprovider", "-rA")
    assert "4 passed" in output


@pytest.mark.parametrize(
    "command",
    [
        ("groupd", "--version"),
        ("python", "-m", "groupd", "--version"),
        ("groupd-pipeline", "--help"),
        ("python", "-m", "groupd.pipeline", "--help"),
    ],
    ids=" ".join,
)
def test_its_directory_hides_no_command(project: Project, command: tuple[str, ...]) -> None:
    assert "groupd" in project.run(*command)


def test_what_is_imported_is_the_installation(project: Project) -> None:
    where = project.run("python", "-c", "import groupd.storage.log as found; print(found.__file__)")
    assert Path(where.strip()).is_relative_to(project.programs.parent)


def test_python_workers_of_spark_find_the_package_and_not_its_folders(project: Project) -> None:
    code = (
        "import os; from groupd.pipeline.session import let_workers_import; let_workers_import(); "
        "print(os.environ['PYTHONPATH'])"
    )
    (path,) = project.run("python", "-c", code).strip().split(":")
    assert (Path(path) / "groupd" / "storage").is_dir()
    assert not (Path(path) / "storage").exists()
