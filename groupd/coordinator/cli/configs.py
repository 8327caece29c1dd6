"""The commands of `groupd configs`: flags and help. The code that does the work is imported when a
command runs, so that other commands do not wait for it.
"""

from __future__ import annotations

from typing import Annotated

import typer

from groupd.coordinator.cli.completion import words
from groupd.coordinator.cli.kafka.flags import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    CommandConfig,
    Format,
    Wide,
    is_json,
)
from groupd.coordinator.cli.parse import UsageError

ENTITIES = ("topic", "group", "broker")

app = typer.Typer(
    help="Settings of topics, groups and brokers, of a running daemon or of any Kafka cluster.",
    no_args_is_help=True,
)

EntityType = Annotated[
    str,
    typer.Option("--entity", help="topic, group or broker.", autocompletion=words(*ENTITIES)),
]
Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help='Its name; the id of a broker, or "" for all brokers.'),
]


@app.command()
def describe(
    name: Name,
    entity: EntityType,
    every: Annotated[bool, typer.Option("--all", help="Also values that are defaults.")] = False,
    bootstrap_server: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    output: Format = "table",
    wide: Wide = False,
) -> None:
    """The settings that are no defaults, and where each value comes from.

    Source: topic, group or broker: it is set for this one; "all brokers": it is set for all of
    them; static: from the broker's own file or flags.

    Example: groupd configs describe --entity topic orders --all
    """
    from groupd.coordinator.cli import configs_work

    place = configs_work.ConfigPlace.parse(entity, name, bootstrap_server, command_config)
    configs_work.describe(place, every=every, as_json=is_json(output), wide=wide)


@app.command("set")
def set_configs(
    name: Name,
    settings: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...", help="What to set.")],
    entity: EntityType,
    bootstrap_server: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    output: Format = "table",
    wide: Wide = False,
) -> None:
    """Set values, all or none, and print what has changed. Nothing is asked.

    Example: groupd configs set --entity topic orders retention.ms=86400000
    """
    from groupd.coordinator.cli import configs_work

    place = configs_work.ConfigPlace.parse(entity, name, bootstrap_server, command_config)
    wanted = dict(_pair(text) for text in settings)
    configs_work.change(place, wanted, as_json=is_json(output), wide=wide)


@app.command()
def delete(
    name: Name,
    keys: Annotated[list[str], typer.Argument(metavar="KEY...", help="What to delete.")],
    entity: EntityType,
    bootstrap_server: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    output: Format = "table",
    wide: Wide = False,
) -> None:
    """Delete values, so that the default or a broker's value holds again, and print what has
    changed. Nothing is asked.

    Example: groupd configs delete --entity group billing consumer.session.timeout.ms
    """
    from groupd.coordinator.cli import configs_work

    place = configs_work.ConfigPlace.parse(entity, name, bootstrap_server, command_config)
    configs_work.change(place, dict.fromkeys(keys), as_json=is_json(output), wide=wide)


def _pair(text: str) -> tuple[str, str | None]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"{text}: must be KEY=VALUE")
    return key.strip(), value
