"""`groupd-pipeline JOB`: a job over the log, from the shell or under `spark-submit`."""

from __future__ import annotations

import sys
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from pipeline.errors import JobFailed, PipelineError

EXIT_FAILED, EXIT_USAGE = 1, 2
OWN_COMMANDS = ("generate", "report")
"""What is no job, and has options of its own."""

PROGRAM = "groupd-pipeline"
_INPUT, _RESULT, _SPARK = "Where the log is", "What comes out", "Spark"

# typer brings a click of its own and exports only this subclass of its usage error.
TyperUsageError: Any = typer.BadParameter.__base__

app = typer.Typer(name=PROGRAM, add_completion=False, pretty_exceptions_enable=False)


_Job = Annotated[str, typer.Argument(help="Name of a job; `jobs` lists them.")]
_Store = Annotated[
    str | None,
    typer.Option(help="URL as for the daemon, or a data directory.", rich_help_panel=_INPUT),
]
_Kafka = Annotated[
    str | None,
    typer.Option(
        help="HOST:PORT of a cluster, or of a groupd: its __consumer_offsets is read.",
        rich_help_panel=_INPUT,
    ),
]
_Segments = Annotated[
    str | None, typer.Option(help="Log directory of a broker.", rich_help_panel=_INPUT)
]
_Lake = Annotated[
    str | None, typer.Option(help="What the job entries wrote.", rich_help_panel=_INPUT)
]
_Topics = Annotated[
    str | None,
    typer.Option(help="Table of topic ids: csv, json or parquet.", rich_help_panel=_INPUT),
]
_EndOffsets = Annotated[
    str | None,
    typer.Option(help="Table of end offsets: csv, json or parquet.", rich_help_panel=_INPUT),
]
_KafkaOption = Annotated[
    list[str] | None,
    typer.Option(
        help="NAME=VALUE for Spark's Kafka source, like kafka.security.protocol=SSL.",
        rich_help_panel=_INPUT,
    ),
]
_Group = Annotated[
    list[str] | None, typer.Option(help="Only this group; repeat.", rich_help_panel=_INPUT)
]
_From = Annotated[
    str | None,
    typer.Option("--from", help="Records from this time on (ISO).", rich_help_panel=_INPUT),
]
_Until = Annotated[
    str | None,
    typer.Option(help="Records before this time (ISO).", rich_help_panel=_INPUT),
]
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
_Master = Annotated[
    str | None,
    typer.Option(help="Spark's master; local[*] if not told.", rich_help_panel=_SPARK),
]
_DriverMemory = Annotated[str, typer.Option(rich_help_panel=_SPARK)]
_Packages = Annotated[
    str | None,
    typer.Option(help="Maven coordinates for Spark to fetch.", rich_help_panel=_SPARK),
]
_Jars = Annotated[str | None, typer.Option(help="Jar files for Spark.", rich_help_panel=_SPARK)]
_Conf = Annotated[
    list[str] | None,
    typer.Option(help="NAME=VALUE: a setting of Spark's own.", rich_help_panel=_SPARK),
]


@app.command(no_args_is_help=True)
def run(
    job: _Job,
    store: _Store = None,
    kafka: _Kafka = None,
    segments: _Segments = None,
    lake: _Lake = None,
    topics: _Topics = None,
    end_offsets: _EndOffsets = None,
    kafka_option: _KafkaOption = None,
    group: _Group = None,
    from_: _From = None,
    until: _Until = None,
    out: _Out = None,
    set_: _Set = None,
    format_: _Format = "parquet",
    quarantine: _Quarantine = True,
    master: _Master = None,
    driver_memory: _DriverMemory = "2g",
    packages: _Packages = None,
    jars: _Jars = None,
    conf: _Conf = None,
) -> None:
    """Run a job over the offsets log and write its tables.

    `report` and `generate` are commands of their own: a page about what the jobs found, and a log
    to try it with (`groupd-pipeline report --help`).
    """
    # Loads Spark, which --help and errors of usage need not wait for.
    from pipeline.command import Request, list_jobs, run_request

    if job == "jobs":
        list_jobs()
        return
    request = Request(
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
    """Run the command line; never returns."""
    args = sys.argv[1:] if args is None else args
    try:
        command, name, rest = _command(args)
        command.main(rest, prog_name=name, standalone_mode=False)
    except PipelineError as error:
        _end(str(error), EXIT_USAGE)
    except TyperUsageError as error:
        if not error.format_message():
            sys.exit(EXIT_USAGE)  # without arguments the help has been printed
        where = getattr(error, "ctx", None)
        hint = f" (see `{where.command_path} --help`)" if where is not None else ""
        _end(f"{error.format_message()}{hint}", EXIT_USAGE)
    except JobFailed as error:
        _end(str(error), EXIT_FAILED)
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(130)
    sys.exit(0)


def _command(args: list[str]) -> tuple[Any, str, list[str]]:
    """The command, its name, and what is left of the arguments."""
    if not args or args[0] not in OWN_COMMANDS:
        return typer.main.get_command(app), PROGRAM, args
    own = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    if args[0] == "generate":
        from pipeline.generator.command import generate_command

        own.command()(generate_command)
    else:
        from pipeline.report.command import report_command

        own.command()(report_command)
    return typer.main.get_command(own), f"{PROGRAM} {args[0]}", args[1:]


def _end(text: str, code: int) -> NoReturn:
    print(f"{PROGRAM}: " + " ".join(text.split()), file=sys.stderr)
    sys.exit(code)
