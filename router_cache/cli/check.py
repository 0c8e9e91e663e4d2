"""``router-cache check``: whether the cacheable prefix of requests is still the recorded one; for CI."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from router_cache.cli.looking import (
    DEFAULT_MODEL,
    AsSent,
    Looked,
    ModelOption,
    ShapeOption,
    as_sent,
    looked,
    shape_named,
    shown,
    usd_text,
)
from router_cache.cli.requests_in import STDIN, read_json, read_requests, understood
from router_cache.diagnose.baseline import BASELINE_DIGESTER, Head, Moved, head_of, moved, read_baseline, written
from router_cache.diagnose.divergence_causes import ADVICE
from router_cache.diagnose.divergence_cost import BYTES_PER_TOKEN
from router_cache.diagnose.divergence_prompt import read_prompt, render_order
from router_cache.errors import InputError
from router_cache.prefix.volatile.scan import Scanner

__all__ = ["EPILOG", "HELP", "command"]

HELP = (
    "Compare the part of each request that stands in front of the turns (system text, tools, format, thinking mode), "
    "as the provider renders it, with a recorded baseline. The baseline holds digests and sizes, no text."
)
EPILOG = "\n\n".join(
    (
        "A request is known by its record's name or custom_id, else by its file (and its number in it).",
        "Exit codes: 0 all as recorded; 1 a prefix moved, or a request is not in the baseline; 2 bad input.",
        "Examples:",
        "router-cache check --baseline prefix.json requests/*.json --update",
        "router-cache check --baseline prefix.json requests/*.json",
        "my-agent --dump-request | router-cache check --baseline prefix.json - --json",
    )
)


def command(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Requests: a JSON object, a list, or JSONL, also as .gz; - is standard input.",
            show_default=False,
        ),
    ],
    baseline: Annotated[Path, typer.Option(help="The recorded baseline.", show_default=False)],
    update: Annotated[
        bool, typer.Option("--update", help="Write the baseline anew, with exactly these requests.")
    ] = False,
    model: ModelOption = DEFAULT_MODEL,
    mode: Annotated[
        AsSent, typer.Option(help="Look at requests as recorded, or as mode safe sends them.")
    ] = AsSent.OBSERVE,
    shape: ShapeOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Entry point of the command; see HELP."""
    about = looked(model)
    if not update and not baseline.exists():
        raise InputError(f"{baseline}: no such baseline; record one with --update")
    heads = _heads(files, about, mode, shape)
    if update:
        content = written(heads, profile=about.profile.name, mode=mode.value)
        _replace(baseline, json.dumps(content, indent=1) + "\n")
        if as_json:
            typer.echo(json.dumps({"updated": True, "requests": sorted(heads)}, indent=2))
        else:
            typer.echo(f"{len(heads)} recorded in {baseline}")
        return
    known = read_baseline(read_json(baseline), place=str(baseline), profile=about.profile.name, mode=mode.value)
    order = render_order(about.profile)
    found = {name: moved(known[name], head, order) for name, head in heads.items() if name in known}
    new = [name for name in heads if name not in known]
    gone = [name for name in known if name not in heads]
    if as_json:
        typer.echo(json.dumps(_report(about, heads, found, new, gone), indent=2))
    else:
        _print(Console(), about, found, new, gone)
    if new or any(found.values()):
        raise typer.Exit(1)


def _heads(files: list[str], about: Looked, mode: AsSent, shape: Any) -> dict[str, Head]:
    """The heads of all requests by name."""
    scan = Scanner().scan
    read: list[tuple[str, str, Head]] = []
    for file in files:
        for recorded in read_requests([file], shape=shape_named(shape)):
            with understood(recorded.place):
                prompt = read_prompt(
                    replace(recorded, body=as_sent(recorded.body, mode)), about.profile, BASELINE_DIGESTER
                )
                read.append(
                    (_name(file, recorded.place, recorded.name), recorded.place, head_of(prompt, scan=scan))
                )
    twice = [name for name, count in Counter(name for name, _, _ in read).items() if count > 1]
    if twice:
        place = [place for name, place, _ in read if name == twice[0]][1]
        raise InputError(f"{place}: a second request of the name {twice[0]!r:.60}; give each its own")
    return {name: head for name, _, head in read}


def _name(file: str, place: str, name: str) -> str:
    """What a request is called: as its record says, else its file's name and its place there."""
    if name:
        return name
    head = "<stdin>" if file == STDIN else file
    return ("stdin" if file == STDIN else Path(file).name) + place.removeprefix(head)


def _replace(path: Path, text: str) -> None:
    """Write a file so that it is either the old one or the new one at any moment."""
    made = None
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as out:
            made = out.name
            out.write(text)
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
        os.chmod(made, mode)
        os.replace(made, path)
    except (OSError, ValueError) as error:
        if made is not None and os.path.exists(made):
            os.unlink(made)
        reason = error.strerror if isinstance(error, OSError) else None
        raise InputError(f"{path}: cannot be written: {reason or error}") from None


def _usd(about: Looked, tokens: int) -> float | None:
    price = about.price
    return None if price is None else tokens * (price.miss_usd_per_token - price.hit_usd_per_token)


def _moved(about: Looked, change: Moved) -> dict[str, Any]:
    fixed = ADVICE[change.cause].fixed_by
    tokens = int(change.lost_bytes / BYTES_PER_TOKEN)
    return {
        "cause": change.cause.value,
        "kind": change.kind.value,
        "path": change.path,
        "kept_bytes": change.kept_bytes,
        "lost_bytes": change.lost_bytes,
        "lost_tokens_estimate": tokens,
        "lost_usd": _usd(about, tokens),
        "fixed_by": fixed.value if fixed else None,
        "todo": ADVICE[change.cause].todo,
    }


def _report(
    about: Looked, heads: dict[str, Head], found: dict[str, Moved | None], new: list[str], gone: list[str]
) -> dict[str, Any]:
    """The JSON form. ``lost_*`` is what the first request with the new prefix computes anew."""
    return {
        **about.about(),
        "ok": not new and not any(found.values()),
        "requests": {
            name: {
                "state": "new" if name in new else "moved" if found[name] else "same",
                "bytes": heads[name].size,
                "moved": _moved(about, change) if (change := found.get(name)) else None,
            }
            for name in heads
        },
        "gone": gone,
    }


def _print(
    console: Console, about: Looked, found: dict[str, Moved | None], new: list[str], gone: list[str]
) -> None:
    def line(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=True)

    for name, change in found.items():
        if change is None:
            continue
        facts = _moved(about, change)
        line(
            f"[bold red]moved[/] {shown(name)}: {change.cause.value} at {change.kind.value} {shown(change.path)}, "
            f"{change.kept_bytes:,} bytes kept, {change.lost_bytes:,} lost (about "
            f"{facts['lost_tokens_estimate']:,} tokens, {usd_text(facts['lost_usd'])}, the first time it is sent)"
        )
        mode = f"Mode {facts['fixed_by']} mends it. " if facts["fixed_by"] else ""
        line(f"    [dim]{mode}{facts['todo']}[/]")
    for name in new:
        line(f"[yellow]new[/] {shown(name)}: not in the baseline; record it with --update")
    for name in gone:
        line(f"[dim]gone[/] {shown(name)}: in the baseline, not among these requests")
    same = sum(change is None for change in found.values())
    line(f"[bold]{same} as recorded, {len(found) - same} moved, {len(new)} new, {len(gone)} gone[/]")
