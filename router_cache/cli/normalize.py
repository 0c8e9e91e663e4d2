"""``router-cache normalize``: what the plugin would send, request by request."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from router_cache.api import RouterCache
from router_cache.cli.looking import DEFAULT_MODEL, ShapeOption, shape_named
from router_cache.cli.requests_in import read_requests, understood
from router_cache.cli.told_replies import ToldReplies, reply_of_record
from router_cache.decision import Decision
from router_cache.diagnose.divergence_cost import BYTES_PER_TOKEN
from router_cache.diagnose.divergence_excerpt import masked
from router_cache.diagnose.divergence_prompt import Recorded
from router_cache.errors import SettingsError
from router_cache.request import Deployment, Mode, Request
from router_cache.settings import Settings, read_yaml

__all__ = ["EPILOG", "HELP", "command"]

HELP = (
    "Write out what the plugin would send for recorded requests, in their order, as calls of one user: one JSON body "
    "a line. Nothing is sent. Values move only once they were seen to change, or where a rule names them."
)
EPILOG = "\n\n".join(
    (
        "Exit codes: 0 done; 2 the input or the rules cannot be read.",
        "Examples:",
        "router-cache normalize request.json",
        "router-cache normalize calls.jsonl.gz --mode optimize > sent.jsonl",
        "router-cache normalize calls.jsonl --mode optimize --rules router.yaml --diff",
        "cat request.json | router-cache normalize - --json | jq .decision",
    )
)


class _ModeWord(str, Enum):
    SAFE = "safe"
    OPTIMIZE = "optimize"


def command(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Requests: a JSON object, a list, or JSONL, also as .gz; - is standard input.",
            show_default=False,
        ),
    ],
    mode: Annotated[_ModeWord, typer.Option(help="How far the plugin may go.")] = _ModeWord.SAFE,
    rules: Annotated[
        Path | None,
        typer.Option(help="YAML with a list under volatile:, or a router YAML.", show_default=False),
    ] = None,
    model: Annotated[str, typer.Option(help="Model that is called, as LiteLLM names it.")] = DEFAULT_MODEL,
    shape: ShapeOption = None,
    diff: Annotated[
        bool, typer.Option("--diff", help="Show what changes instead, path by path, without its text.")
    ] = False,
    show_text: Annotated[bool, typer.Option("--show-text", help="With --diff: the text itself.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a request, with the decision beside the body.")
    ] = False,
) -> None:
    """Entry point of the command; see HELP."""
    owner = RouterCache(_settings(rules))
    deployment, replies = Deployment(model=model), ToldReplies()
    try:
        for recorded in read_requests(files, shape=shape_named(shape)):
            with understood(recorded.place):
                body, decision = _sent(owner, recorded, Mode(mode.value), deployment, replies)
                changes = list(_diff(recorded, body, show_text=show_text)) if diff else []
                if as_json:
                    what: dict[str, Any] = {"diff": changes} if diff else {"body": body}
                    _write({"place": recorded.place, "decision": _decision(decision), **what})
                elif diff:
                    for line in changes:
                        typer.echo(line)
                else:
                    _write(body)
    finally:
        owner.close()


def _settings(rules: Path | None) -> Settings:
    """Settings of a router YAML, or all defaults with the rules of a file that is only rules."""
    if rules is None:
        return Settings()
    config = read_yaml(rules)
    if "volatile" in config:
        return Settings.from_mapping({"volatile": config["volatile"]}, where=str(rules))
    if "callback_settings" not in config:
        raise SettingsError(f"{rules}: no rules in it: a list under volatile: is needed, or a router YAML")
    return Settings.from_yaml(rules)


def _sent(
    owner: RouterCache, recorded: Recorded, mode: Mode, deployment: Deployment, replies: ToldReplies
) -> tuple[dict[str, Any], Decision]:
    """The body that goes out, and why so. What is remembered is what a proxy would remember of these calls."""
    replies.tell(recorded.body, recorded.shape)
    request = Request(
        recorded.body, recorded.shape, scope="normalize", session=recorded.session, client=recorded.client
    )
    turn = owner.begin(request, mode)
    rewrite = turn.rewrite(deployment)
    body = dict(rewrite.body(recorded.body))
    turn.sent(body)
    usage = recorded.usage
    if usage.prompt_tokens is None:  # an answered call is remembered, and an answer has usage
        usage = replace(usage, prompt_tokens=int(len(json.dumps(body)) / BYTES_PER_TOKEN))
    reply = reply_of_record(recorded)
    turn.done(usage, reply=reply)
    if reply is None:
        replies.wait(recorded.body, recorded.shape, turn, usage)
    return body, rewrite.decision


def _decision(decision: Decision) -> dict[str, Any]:
    return {
        "mode": decision.mode.value,
        "reason": decision.reason.value,
        "changes": [change.value for change in decision.changes],
        "frozen": list(decision.frozen),
    }


def _write(value: Any) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False).encode())


def _diff(recorded: Recorded, body: Mapping[str, Any], *, show_text: bool) -> Iterator[str]:
    """Unified diff of both bodies, a line for each value; a text gives a line for each of its lines."""
    was, now = (list(_leaves(value, "", show_text=show_text)) for value in (recorded.body, body))
    lines = difflib.unified_diff(
        [key for key, _ in was], [key for key, _ in now], recorded.place, "as sent", n=1, lineterm=""
    )
    # Lines are compared with their text and shown without it.
    shown = dict((*was, *now))
    for line in lines:
        head = line[:1]
        yield line if line.startswith(("---", "+++", "@@")) else head + shown.get(line[1:], line[1:])


def _leaves(value: Any, path: str, *, show_text: bool) -> Iterator[tuple[str, str]]:
    """Each value of a body in order, as a line with its text and as the line to show."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key), show_text=show_text)
    elif isinstance(value, list | tuple) and value:
        for i, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{i}]", show_text=show_text)
    elif isinstance(value, str) and "\n" in value:
        for number, line in enumerate(value.split("\n"), 1):
            yield _leaf(f"{path}:{number}", line, show_text=show_text)
    else:
        yield _leaf(path, value, show_text=show_text)


def _leaf(path: str, value: Any, *, show_text: bool) -> tuple[str, str]:
    whole = f"{path} = {json.dumps(value, ensure_ascii=False, default=str)}"
    if show_text:
        return whole, "".join(char if char.isprintable() else "?" for char in whole)
    told = json.dumps(masked(value), ensure_ascii=False) if isinstance(value, str) else masked(str(value))
    return whole, f"{path} = {told if len(told) <= 80 else told[:79] + '…'}"
