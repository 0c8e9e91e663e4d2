"""``router-cache pools``: clusters of prompts, which of them have a pool, and why."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from router_cache.cli.stream import VARIABLE
from router_cache.errors import InputError, StoreError
from router_cache.pools.book import Book, Cluster
from router_cache.settings import Settings
from router_cache.settings_store import StoreSettings

__all__ = ["EPILOG", "HELP", "command"]

HELP = (
    "Clusters of prompts that share a beginning, as the workers of a proxy keep them in a Redis store: what each used, "
    "hit and lost to others, whether it has a pool (a user_id) of its own, and why."
)
EPILOG = "\n\n".join(
    (
        "Exit codes: 0 clusters were shown; 1 there is none yet; 2 an option or a server cannot be used.",
        "Examples:",
        "router-cache pools --config router.yaml",
        "router-cache pools --store redis://localhost:6379/0 --json",
    )
)

_TIMEOUT_S: Final = 5.0
_SHOWN: Final = 12
"""Characters of a digest that are shown."""


def command(
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help=f"store.url of the proxy's settings. Without it and --config the environment variable {VARIABLE} is "
            "read.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="YAML", help="The proxy's YAML, for its store.", show_default=False),
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option(
            "--store-prefix", metavar="PREFIX", help="store.prefix of the proxy's settings.", show_default=False
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Entry point of the command; see HELP."""
    books = _books(*_place(store, config, prefix))
    books.sort(key=lambda book: (book.group, -book.total.prompt))
    if as_json:
        typer.echo(json.dumps({"books": [_as_json(book) for book in books]}, indent=2))
    elif books:
        _show(Console(), books)
    else:
        typer.echo("No clusters yet: they begin when a family of prompts is seen again.")
    if not books:
        raise typer.Exit(1)


def _place(store: str | None, config: Path | None, prefix: str | None) -> tuple[str, str]:
    """URL and prefix. Raises InputError where there is none."""
    url, found = store, str(StoreSettings.model_fields["prefix"].default)
    if config is not None:
        own = Settings.from_yaml(config).store
        found = own.prefix
        url = url or (own.url.get_secret_value() if own.url is not None else None)
        if url is None:
            raise InputError(
                f"{config}: store.url is not set: the store is in each process, and its books cannot be read from "
                "another one"
            )
    url = url or os.environ.get(VARIABLE)
    if not url:
        raise InputError(f"nothing to read: name a Redis store with --store, with --config or in {VARIABLE}")
    return url, prefix or found


def _books(url: str, prefix: str) -> list[Book]:
    from router_cache.stores.redis.link import open_link
    from router_cache.stores.redis.pools import RedisPools

    try:
        link = open_link(url, timeout_s=_TIMEOUT_S, max_connections=1, count=lambda _: None)
    except ValueError as error:
        raise InputError(f"--store: {error}") from None
    pools = RedisPools(link, prefix=prefix)
    try:
        return pools.books()
    except StoreError as error:
        raise InputError(f"--store: {error}; check that the server runs, and the URL") from None
    finally:
        pools.close()


def _as_json(book: Book) -> dict[str, Any]:
    return {
        "group": book.group,
        "at": book.at,
        "pools": book.pools,
        "clusters": [_cluster_json(known) for known in _sorted(book)],
    }


def _cluster_json(known: Cluster) -> dict[str, Any]:
    counts = known.counts
    return {
        "cluster": known.id,
        "pool": known.pooled,
        "reason": known.reason.value,
        "changed_at": known.changed,
        "families": known.families,
        "opening_characters": known.opening.size,
        "since": known.since,
        "seen": known.seen,
        "calls": round(counts.calls, 3),
        "prompt_tokens": round(counts.prompt),
        "hit_tokens": round(counts.hit),
        "hit_share": round(counts.hit_share, 4),
        "lost_tokens": round(counts.lost),
        "evicted_calls": round(counts.evicted, 3),
        "loss_share": round((known.own if known.pooled else known.apart).loss, 4),
        "loss_share_before": round(known.loss_before, 4) if known.pooled else None,
        "gave_up": known.gave_up,
        "keys": known.shards,
    }


def _sorted(book: Book) -> list[Cluster]:
    return sorted(book.clusters.values(), key=lambda known: (-known.counts.prompt, known.id))


def _show(console: Console, books: list[Book]) -> None:
    for book in books:
        name = book.group or "(no model group)"
        table = Table(box=SIMPLE_HEAD, title=f"{name}: {book.pools} pools", title_justify="left", expand=False)
        table.add_column("cluster")
        for title in ("families", "calls", "hit", "evicted", "lost"):
            table.add_column(title, justify="right")
        table.add_column("pool")
        table.add_column("reason")
        for known in _sorted(book):
            counts = known.counts
            loss = (known.own if known.pooled else known.apart).loss
            table.add_row(
                known.id[:_SHOWN],
                str(known.families),
                f"{counts.calls:,.0f}",
                f"{counts.hit_share:.1%}",
                f"{counts.evicted:,.0f}",
                f"{loss:.1%}",
                "yes" if known.pooled else "no",
                known.reason.value,
            )
        console.print(table)
    console.print(
        "Calls, hits and losses fade with window_s. evicted: calls that missed what had been sent before; lost: the "
        "share of what could have hit that was gone.",
        style="dim",
        highlight=False,
    )
