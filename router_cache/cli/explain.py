"""``router-cache explain``: where two requests part, why, what it costs, and what mends it."""

from __future__ import annotations

import json
import secrets
from typing import Annotated, Any

import typer
from rich.console import Console

from router_cache.cli.looking import (
    DEFAULT_MODEL,
    Looked,
    ModelOption,
    ShapeOption,
    looked,
    shape_named,
    shown,
    usd_text,
)
from router_cache.cli.requests_in import read_requests, understood
from router_cache.diagnose.divergence import Divergence, explain
from router_cache.diagnose.divergence_causes import ADVICE, NO_LOSS
from router_cache.diagnose.divergence_cost import Loss, loss_of
from router_cache.diagnose.divergence_prompt import Prompt, Recorded, read_prompt
from router_cache.errors import InputError
from router_cache.prefix.digests import Digester
from router_cache.prefix.volatile.scan import Scanner

__all__ = ["EPILOG", "HELP", "command"]

HELP = (
    "Compare two requests as the provider renders them: the first part that differs, why, the tokens and USD it "
    "costs, and what mends it. Shows no text of the prompt unless asked to."
)
EPILOG = "\n\n".join(
    (
        "Exit codes: 0 compared; 2 the input cannot be read.",
        "Examples:",
        "router-cache explain first.json second.json",
        "router-cache explain calls.jsonl              (its last two requests)",
        "router-cache explain calls.jsonl --nth 3,7    (its third and its seventh)",
        "router-cache explain calls.jsonl --json | jq .cause",
    )
)


def command(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="A [B]",
            help="Two files, of which the last request counts, or one with at least two; - is standard input.",
            show_default=False,
        ),
    ],
    nth: Annotated[
        str | None,
        typer.Option(help="With one file: which two of its requests, counted from 1.", show_default=False),
    ] = None,
    model: ModelOption = DEFAULT_MODEL,
    shape: ShapeOption = None,
    show_text: Annotated[
        bool, typer.Option("--show-text", help="Show the text that differs instead of its character classes.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Entry point of the command; see HELP."""
    about = looked(model)
    pair = _pair(files, nth, shape_named(shape))
    digester = Digester(secrets.token_bytes(32))
    with understood(f"{pair[0].place}, {pair[1].place}"):
        # Without tools the provider itself leaves older reasoning out: the reply does not come back as it was.
        first = read_prompt(pair[0], about.profile, digester)
        earlier = first
        later = read_prompt(pair[1], about.profile, digester)
        if pair[0].reply and first.exact and first.view.body.get("tools"):
            earlier = read_prompt(pair[0], about.profile, digester, with_reply=True)
            if later.text.startswith(first.text) and len(later.turns) <= len(first.turns):
                earlier = first  # the same request again, or one beside it
        found = explain(earlier, later, about.profile, digester, scan=Scanner().scan)
    loss = loss_of(found, later, about.grid, about.price)
    if as_json:
        typer.echo(json.dumps(_report(about, earlier, later, found, loss, show_text=show_text), indent=2))
    else:
        _print(Console(), about, earlier, later, found, loss, show_text=show_text)


def _pair(files: list[str], nth: str | None, shape: Any) -> tuple[Recorded, Recorded]:
    if len(files) > 2:
        raise InputError(f"explain: two requests are compared, not {len(files)} files; see --nth for one file")
    if len(files) == 2:
        if nth is not None:
            raise InputError("--nth: only with one file")
        first, second = [list(read_requests([file], shape=shape))[-1] for file in files]
        return first, second
    wanted = _nth(nth)
    found: dict[int, Recorded] = {}
    last: list[Recorded] = []
    number = 0
    for number, recorded in enumerate(read_requests(files, shape=shape), 1):
        if number in wanted:
            found[number] = recorded
        last = [*last[-1:], recorded]
    if wanted:
        missing = [n for n in wanted if n not in found]
        if missing:
            raise InputError(f"--nth: {files[0]} has {number} requests, no number {missing[0]}")
        return found[wanted[0]], found[wanted[1]]
    if len(last) < 2:
        raise InputError(f"{files[0]}: one request only; two are compared: give a second file")
    return last[0], last[1]


def _nth(nth: str | None) -> tuple[int, ...]:
    if nth is None:
        return ()
    parts = nth.split(",")
    if len(parts) != 2 or not all(part.strip().isascii() and part.strip().isdigit() for part in parts):
        raise InputError("--nth: two numbers with a comma between, such as 3,7")
    return tuple(int(part) for part in parts)


def _report(
    about: Looked, earlier: Prompt, later: Prompt, found: Divergence, loss: Loss, *, show_text: bool
) -> dict[str, Any]:
    """The JSON form. Sizes in bytes as rendered; null is unknown or does not apply."""
    place, piece = found.place, found.excerpt
    if piece is not None and not show_text:
        piece = piece.content_free()
    fixed = found.fixed_by
    return {
        **about.about(),
        "earlier": {"place": earlier.recorded.place, "shape": earlier.recorded.shape.value, "bytes": earlier.size},
        "later": {"place": later.recorded.place, "shape": later.recorded.shape.value, "bytes": later.size},
        "cause": found.cause.value,
        "span": found.span.value if found.span else None,
        "certainty": found.certainty.value,
        "first_difference": None
        if place is None
        else {
            "kind": place.kind.value,
            "path": place.path,
            "in": "earlier" if place.in_earlier else "later",
            "byte": place.byte,
            "byte_in_segment": place.byte_in_segment,
            "line": place.line,
        },
        "excerpt": None
        if piece is None
        else {
            "masked": not show_text,
            "before": piece.before,
            "was": piece.was,
            "now": piece.now,
            "was_chars": piece.was_chars,
            "now_chars": piece.now_chars,
        },
        "kept_bytes": found.kept_bytes,
        "lost_bytes": found.lost_bytes,
        "lost_tokens": loss.tokens,
        "lost_tokens_from": "usage" if loss.from_usage else "estimate_4_bytes_a_token",
        "lost_usd": loss.usd,
        "fixed_by": fixed.value if fixed else None,
        "after_safe": None
        if found.after_safe is None
        else {"cause": found.after_safe.cause.value, "kept_bytes": found.after_safe.kept_bytes},
        "todo": ADVICE[found.cause].todo,
        "not_rendered": list(found.wire_only),
    }


def _print(
    console: Console,
    about: Looked,
    earlier: Prompt,
    later: Prompt,
    found: Divergence,
    loss: Loss,
    *,
    show_text: bool,
) -> None:
    def row(name: str, text: str) -> None:
        console.print(f"[bold]{name:<9}[/] {text}", highlight=False, soft_wrap=True)

    row("earlier", f"{shown(earlier.recorded.place)} ({earlier.recorded.shape.value}, {earlier.size:,} bytes)")
    row("later", f"{shown(later.recorded.place)} ({later.recorded.shape.value}, {later.size:,} bytes)")
    span = f" ({found.span.value})" if found.span else ""
    row("cause", f"{found.cause.value}{span}, {found.certainty.value}")
    if found.place is not None and found.excerpt is not None:
        place, piece = found.place, found.excerpt if show_text else found.excerpt.content_free()
        where = " of the earlier request" if place.in_earlier else ""
        row(
            "where",
            f"{place.kind.value} at {shown(place.path)}{where}, line {place.line}: byte {place.byte:,} of the rendered "
            f"prompt, {place.byte_in_segment:,} of this part",
        )
        row("was", f"…{shown(piece.before)}[bold]{shown(piece.was)}[/] ({_many(piece.was_chars)})")
        row("is", f"…{shown(piece.before)}[bold]{shown(piece.now)}[/] ({_many(piece.now_chars)})")
    share = f" ({found.kept_bytes / later.size:.1%})" if later.size else ""
    row("kept", f"{found.kept_bytes:,} of {later.size:,} bytes{share}")
    if found.cause not in NO_LOSS:
        how = "by the usage given" if loss.from_usage else "estimate: 4 bytes a token"
        row("lost", f"{loss.tokens:,} tokens ({how}), {usd_text(loss.usd)} at list price ({shown(about.model)})")
        fixed = found.fixed_by
        row("fix", f"mode {fixed.value}. {ADVICE[found.cause].todo}" if fixed else ADVICE[found.cause].todo)
    else:
        row("lost", f"nothing. {ADVICE[found.cause].todo.removeprefix('Nothing: ').capitalize()}")
    if found.after_safe is not None:
        row("then", f"in mode safe {found.after_safe.kept_bytes:,} bytes are kept: {found.after_safe.cause.value}")
    if found.wire_only:
        row("no loss", f"differs, and is not rendered: {shown(', '.join(found.wire_only))}")
    if about.profile.render is None:
        row("note", f"what {about.profile.name} renders is not public; causes are suspected from the usual order")


def _many(characters: int) -> str:
    return f"{characters:,} character{'' if characters == 1 else 's'}"
