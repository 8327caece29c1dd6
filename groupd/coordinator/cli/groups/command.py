"""The commands of `groupd groups`: flags and help. The code that does the work is imported when a
command runs, so that other commands do not wait for it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from groupd.coordinator.cli.admin_port import (
    DEFAULT_ADMIN,
    Admin,
    AdminCaFile,
    AdminTokenFile,
    admin_port,
)
from groupd.coordinator.cli.completion import complete_groups, words
from groupd.coordinator.cli.groups.flags import SORTS, GroupsWanted, check_config, log_location
from groupd.coordinator.cli.kafka.flags import (
    BOOTSTRAP,
    DEFAULT_BOOTSTRAP,
    CommandConfig,
    Format,
    Wide,
    is_json,
)
from groupd.coordinator.cli.parse import FORMS, now_ms

app = typer.Typer(
    help="Groups: what they are doing, what they committed when, and bringing it back.",
    no_args_is_help=True,
)

GroupArgument = Annotated[
    str,
    typer.Argument(metavar="GROUP", help="The group's id.", autocompletion=complete_groups),
]
OneOrAll = Annotated[
    str | None,
    typer.Argument(
        metavar="[GROUP]",
        help="The group's id; none: all groups.",
        autocompletion=complete_groups,
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(help="Read the store of this data directory; its daemon may run or not."),
]
StoreUrlOption = Annotated[
    str | None, typer.Option(help="Read this store (a URL, as for serve) instead.")
]
OptionalBootstrap = Annotated[
    str | None,
    typer.Option(
        *BOOTSTRAP,
        help="Read __consumer_offsets from this cluster instead: HOST:PORT, several with commas.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        *BOOTSTRAP,
        help="Ask this Kafka cluster instead of a daemon's admin port: HOST:PORT, several with "
        "commas.",
    ),
]
Writing = Annotated[
    str,
    typer.Option(
        *BOOTSTRAP,
        help="The running daemon or another cluster; HOST:PORT, or several with commas.",
    ),
]
Apply = Annotated[bool, typer.Option("--apply", help="Write; without it nothing is changed.")]


@app.command("list")
def list_groups(
    admin: Admin = DEFAULT_ADMIN,
    lag: Annotated[
        bool, typer.Option("--lag", help="Also members, lag, and the last rebalance.")
    ] = False,
    sort: Annotated[
        str,
        typer.Option(help="name, lag or members (the most first).", autocompletion=words(*SORTS)),
    ] = "name",
    text: Annotated[
        str, typer.Option("--filter", metavar="TEXT", help="Only groups with TEXT in their id.")
    ] = "",
    bootstrap: Cluster = None,
    command_config: CommandConfig = None,
    output: Format = "table",
    wide: Wide = False,
    admin_token_file: AdminTokenFile = None,
    admin_ca_file: AdminCaFile = None,
) -> None:
    """All groups of a running daemon, or of any Kafka cluster at --bootstrap.

    Example: groupd groups list --lag --sort lag --filter billing
    """
    from groupd.coordinator.cli.groups import listing

    check_config(command_config, bootstrap)
    wanted = GroupsWanted.parse(sort, text, lag=lag)
    rows = (
        listing.of_daemon(admin_port(admin, admin_token_file, admin_ca_file))
        if bootstrap is None
        else listing.of_cluster(bootstrap, command_config, lag=wanted.lag)
    )
    listing.show_groups(rows, wanted, as_json=is_json(output), wide=wide)


@app.command()
def describe(
    group: GroupArgument,
    admin: Admin = DEFAULT_ADMIN,
    bootstrap: Cluster = None,
    command_config: CommandConfig = None,
    output: Format = "table",
    wide: Wide = False,
    admin_token_file: AdminTokenFile = None,
    admin_ca_file: AdminCaFile = None,
) -> None:
    """One group of a running daemon: its members, what they hold, how far they are behind, and
    what it waits for. With --bootstrap: a group of any Kafka cluster, as far as Kafka describes it.

    It points out members that have committed nothing for a minute although records wait.

    Example: groupd groups describe billing --bootstrap kafka:9092
    """
    from groupd.coordinator.cli.groups import listing

    check_config(command_config, bootstrap)
    as_json = is_json(output)
    found, offsets = (
        listing.group_of_daemon(admin_port(admin, admin_token_file, admin_ca_file), group)
        if bootstrap is None
        else listing.group_of_cluster(bootstrap, command_config, group)
    )
    listing.show_group(found, offsets, as_json=as_json, wide=wide)


@app.command()
def why(
    group: GroupArgument,
    last: Annotated[int, typer.Option(min=1, max=100, metavar="N", help="So many rebalances.")] = 3,
    admin: Admin = DEFAULT_ADMIN,
    output: Format = "table",
    wide: Wide = False,
    admin_token_file: AdminTokenFile = None,
    admin_ca_file: AdminCaFile = None,
) -> None:
    """Why a group of a running daemon rebalanced: what started it, who came and went, how many
    partitions moved, who took longest to revoke them, and what it waits for now.

    The newest comes first. The daemon remembers a hundred events of each group since its start.

    Example: groupd groups why billing --last 1
    """
    from groupd.coordinator.cli.groups.events import why as show_why

    port = admin_port(admin, admin_token_file, admin_ca_file)
    show_why(group, last, port, as_json=is_json(output), wide=wide)


@app.command()
def watch(
    group: OneOrAll = None,
    admin: Admin = DEFAULT_ADMIN,
    admin_token_file: AdminTokenFile = None,
    admin_ca_file: AdminCaFile = None,
) -> None:
    """All groups of a running daemon in the terminal, the worst first; or one group with its
    members, what it waits for, and its deadlines. It refreshes every 2 seconds; q ends it.

    Without a terminal one frame is printed as text, with exit code 0.

    Example: groupd groups watch billing
    """
    from groupd.coordinator.cli.groups.watch import watch as start_watch

    start_watch(group, admin_port(admin, admin_token_file, admin_ca_file))


@app.command()
def events(
    group: OneOrAll = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what comes next.")] = False,
    admin: Admin = DEFAULT_ADMIN,
    output: Format = "table",
    wide: Wide = False,
    admin_token_file: AdminTokenFile = None,
    admin_ca_file: AdminCaFile = None,
) -> None:
    """What happened lately to a group of a running daemon, or to all: who came, who went and why,
    what started a rebalance, who was given what.

    The daemon remembers a hundred events of each group since its start. `history --events` reads
    the log instead.
    """
    from groupd.coordinator.cli.groups.events import show_events

    port = admin_port(admin, admin_token_file, admin_ca_file)
    show_events(group, port, follow=follow, as_json=is_json(output), wide=wide)


@app.command()
def offsets(
    group: GroupArgument,
    at: Annotated[str | None, typer.Option(metavar="TIME", help=FORMS + ".")] = None,
    at_log_offset: Annotated[
        int | None,
        typer.Option(min=0, help="Up to and with this offset of the group's log."),
    ] = None,
    data_dir: DataDir = None,
    store: StoreUrlOption = None,
    bootstrap: OptionalBootstrap = None,
    command_config: CommandConfig = None,
    output: Format = "table",
    wide: Wide = False,
) -> None:
    """What a group has committed, per partition: now, at --at, or at --at-log-offset.

    Offsets of a transaction count once it is committed. Offsets that were deleted or had expired by
    then are not shown.
    """
    from groupd.coordinator.cli.groups.history import show_offsets

    chosen = log_location(data_dir, store, bootstrap, command_config)
    show_offsets(chosen, group, at, at_log_offset, as_json=is_json(output), wide=wide)


@app.command()
def history(
    group: GroupArgument,
    topic: Annotated[str | None, typer.Option(help="Only this topic.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Only this partition.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="From then on.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Up to then.")] = None,
    events: Annotated[
        bool, typer.Option("--events", help="Members and rebalances in between.")
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="Also commits that moved nothing.")] = False,
    retention_minutes: Annotated[
        int, typer.Option(min=1, help="offsets.retention.minutes: tells expired from deleted.")
    ] = 10080,
    data_dir: DataDir = None,
    store: StoreUrlOption = None,
    bootstrap: OptionalBootstrap = None,
    command_config: CommandConfig = None,
    output: Format = "table",
) -> None:
    """Every change of a group's offsets in the order of the log: when, from, to, and by whom.

    Commits carry no member id: "owner" is the member that had the partition at that point of the
    log, "admin/simple" says that the group had no members then.
    """
    from groupd.coordinator.cli.groups.history import HistoryFilter, show_history

    chosen = log_location(data_dir, store, bootstrap, command_config)
    wanted = HistoryFilter.parse(topic, partition, since, until, events=events, every=every)
    show_history(chosen, group, wanted, retention_minutes * 60_000, as_json=is_json(output))


@app.command()
def restore(
    group: GroupArgument,
    at: Annotated[str, typer.Option(metavar="TIME", help=FORMS + ".")],
    bootstrap: Writing = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    apply: Apply = False,
    delete_new: Annotated[
        bool, typer.Option("--delete-new", help="Delete offsets that did not exist then.")
    ] = False,
    data_dir: DataDir = None,
    store: StoreUrlOption = None,
    output: Format = "table",
    wide: Wide = False,
) -> None:
    """Bring a group's offsets back to what they were at --at. A dry run unless --apply is given.

    The group must be empty. Its history is read from the cluster at --bootstrap, unless
    --data-dir or --store names another place; it is written through the group's coordinator.

    Exit code 0: done, nothing to do, or a dry run of what could be applied; 1: refused or
    failed; 2: a mistake on the command line.
    """
    from groupd.coordinator.cli.groups.moving import restore_group

    stored = (
        log_location(data_dir, store, None) if data_dir is not None or store is not None else None
    )
    restore_group(
        group,
        at,
        bootstrap,
        command_config,
        stored,
        apply=apply,
        delete_new=delete_new,
        as_json=is_json(output),
        wide=wide,
    )


@app.command()
def reset(
    group: GroupArgument,
    to: Annotated[
        str,
        typer.Option(
            metavar="WHERE",
            help="earliest, latest, offset:N, shift:+N, shift:-N, group:ID (where that group is) "
            f"or a time: {FORMS}.",
            autocompletion=words("earliest", "latest", "offset:", "shift:", "group:", "now"),
        ),
    ],
    topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC[:0,1]",
            help="Only this topic, or some of its partitions; repeatable. None: every partition "
            "that has a committed offset.",
        ),
    ] = None,
    share: Annotated[
        bool, typer.Option("--share", help="Make a share group if there is no such group.")
    ] = False,
    bootstrap: Writing = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    apply: Apply = False,
    output: Format = "table",
    wide: Wide = False,
) -> None:
    """Move a group's offsets, of groupd or any Kafka cluster. A dry run unless --apply is given.

    The group must be empty. The plan shows how many records consumers will read again (rewind) or
    skip (forward). An offset that a partition does not have is replaced by the nearest one.

    Examples: groupd groups reset billing --to earliest --topic orders:0,1

    groupd groups reset billing --to -2h --apply

    groupd groups reset parcels --share --to group:billing --apply

    Exit code 0: done, nothing to do, or a dry run of what could be applied; 1: refused or
    failed; 2: a mistake on the command line.
    """
    from groupd.coordinator.cli.groups import moving

    wanted, topics = moving.parse_to(to, now_ms()), moving.parse_topics(topic or ())
    moving.reset_group(
        group,
        wanted,
        topics,
        bootstrap,
        command_config,
        share=share,
        apply=apply,
        as_json=is_json(output),
        wide=wide,
    )
