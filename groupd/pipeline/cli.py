"""`groupd-pipeline JOB`: runs a job over the log, from a shell or under `spark-submit`."""

from __future__ import annotations

import sys
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from groupd.pipeline.arguments import (
    Conf,
    DriverMemory,
    EndOffsets,
    From,
    GroupFlag,
    Jars,
    Kafka,
    KafkaOption,
    Lake,
    Master,
    Packages,
    Segments,
    StoreFlag,
    TopicsFlag,
    Until,
)
from groupd.pipeline.errors import JobFailed, PipelineError

EXIT_FAILED, EXIT_USAGE = 1, 2
OWN_COMMANDS = ("generate", "report")
"""Commands that are not jobs and have options of their own."""

OF_THE_EXTRA = ("pyspark", "py4j", "pyarrow", "pandas", "numpy")
"""Modules that the extra `pipeline` installs, which a plain groupd comes without."""

PROGRAM = "groupd-pipeline"
_RESULT = "What comes out"

# typer brings its own copy of click and exports only this subclass of its usage error.
TyperUsageError: Any = typer.BadParameter.__base__

app = typer.Typer(name=PROGRAM, add_completion=False, pretty_exceptions_enable=False)


_Job = Annotated[str, typer.Argument(help="Name of a job; `jobs` lists them.")]
_Out = Annotated[
    str | None,
    typer.Option(help="Directory: a table each below it.", rich_help_panel=_RESULT),
]
_Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="NAME=VALUE: an option of the job.", rich_help_panel=_RESULT),
]
_Format = Annotated[
    str,
    typer.Option("--format", help="parquet, delta or iceberg.", rich_help_panel=_RESULT),
]
_Quarantine = Annotated[
    bool,
    typer.Option(help="Also read once more for what cannot be decoded.", rich_help_panel=_RESULT),
]


@app.command(no_args_is_help=True)
def run(
    job: _Job,
    store: StoreFlag = None,
    kafka: Kafka = None,
    segments: Segments = None,
    lake: Lake = None,
    topics: TopicsFlag = None,
    end_offsets: EndOffsets = None,
    kafka_option: KafkaOption = None,
    group: GroupFlag = None,
    from_: From = None,
    until: Until = None,
    out: _Out = None,
    set_: _Set = None,
    format_: _Format = "parquet",
    quarantine: _Quarantine = True,
    master: Master = None,
    driver_memory: DriverMemory = "2g",
    packages: Packages = None,
    jars: Jars = None,
    conf: Conf = None,
) -> None:
    """Run a job over the offsets log and write its tables.

    `report` and `generate` are commands of their own: a page about what the jobs found, and a log
    to try it with (`groupd-pipeline report --help`).
    """
    # This import loads Spark, which --help and usage errors need not wait for.
    from groupd.pipeline.command import JobRequest, list_jobs, run_request

    if job == "jobs":
        list_jobs()
        return
    request = JobRequest(
        job=job,
        out=out,
        store=store,
        kafka=kafka,
        segments=segments,
        lake=lake,
        topics=topics,
        end_offsets=end_offsets,
        kafka_options=tuple(kafka_option or ()),
        groups=tuple(group or ()),
        from_time=from_,
        until_time=until,
        settings=tuple(set_ or ()),
        kind=format_,
        with_quarantine=quarantine,
        master=master,
        driver_memory=driver_memory,
        packages=packages,
        jars=jars,
        conf=tuple(conf or ()),
    )
    run_request(request, Console(stderr=True))


def main(args: list[str] | None = None) -> NoReturn:
    """Runs the command line; never returns."""
    args = sys.argv[1:] if args is None else args
    try:
        command, name, rest = _command(args)
        command.main(rest, prog_name=name, standalone_mode=False)
    except PipelineError as error:
        _end(str(error), EXIT_USAGE)
    except TyperUsageError as error:
        if not error.format_message():
            sys.exit(EXIT_USAGE)  # typer has already printed the help, as there were no arguments
        where = getattr(error, "ctx", None)
        hint = f" (see `{where.command_path} --help`)" if where is not None else ""
        _end(f"{error.format_message()}{hint}", EXIT_USAGE)
    except JobFailed as error:
        _end(str(error), EXIT_FAILED)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in OF_THE_EXTRA:
            raise
        _end(f"{error}: the extra is missing: pip install 'groupd[pipeline]'", EXIT_USAGE)
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(130)
    sys.exit(0)


def _command(args: list[str]) -> tuple[Any, str, list[str]]:
    """Returns the command, its name, and the remaining arguments."""
    if not args or args[0] not in OWN_COMMANDS:
        return typer.main.get_command(app), PROGRAM, args
    own = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    if args[0] == "generate":
        from groupd.pipeline.generator.command import generate_command

        own.command()(generate_command)
    else:
        from groupd.pipeline.report.command import report_command

        own.command()(report_command)
    return typer.main.get_command(own), f"{PROGRAM} {args[0]}", args[1:]


def _end(text: str, code: int) -> NoReturn:
    print(f"{PROGRAM}: " + " ".join(text.split()), file=sys.stderr)
    sys.exit(code)
