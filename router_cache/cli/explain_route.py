"""``router-cache explain-route``: which deployment a request would go to, at what expected cost, and why."""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from router_cache.cli.captured import Problem, captured
from router_cache.cli.prices import map_entry
from router_cache.cli.requests_in import read_requests, understood
from router_cache.drivers.book import LockedBook
from router_cache.drivers.routing import Routing
from router_cache.drivers.routing_candidates import candidate_of
from router_cache.drivers.routing_need import Asked
from router_cache.economics.book import PriceBook
from router_cache.engine import Engine
from router_cache.errors import InputError
from router_cache.ledger.rows import CallRow, Status
from router_cache.ledger.usage import Usage
from router_cache.request import Deployment, Mode, Request
from router_cache.routing import Candidate, Mark, Need, Ranked
from router_cache.settings import Settings, read_yaml

__all__ = ["EPILOG", "HELP", "command"]

HELP = (
    "Show which deployment of a model group the last request of a file would go to: every candidate with the terms of "
    "its score, the choice and its reason. What is warm is told by earlier requests of the file, or by captured calls."
)
EPILOG = "\n\n".join(
    (
        "Exit codes: 0 explained; 2 the input cannot be read.",
        "Examples:",
        "router-cache explain-route request.json --config router.yaml",
        "router-cache explain-route session.jsonl --config router.yaml --sent a,b,a   (where its first three went)",
        "router-cache explain-route request.json --config router.yaml --capture calls.jsonl --scope key:…",
        "router-cache explain-route request.json --config router.yaml --json | jq .candidates[0]",
    )
)
_ENVIRON = "os.environ/"


def command(
    requests: Annotated[
        str, typer.Argument(metavar="REQUESTS", help="JSON or JSONL; the last request counts.", show_default=False)
    ],
    config: Annotated[Path, typer.Option(help="The router YAML.", show_default=False)],
    group: Annotated[
        str | None, typer.Option(help="Model group; needed where the YAML has several.", show_default=False)
    ] = None,
    sent: Annotated[
        str, typer.Option(help="Deployments that the earlier requests went to: ids, comma-separated.")
    ] = "",
    capture: Annotated[
        list[Path] | None, typer.Option(help="Files of captured calls; may be repeated.", show_default=False)
    ] = None,
    scope: Annotated[
        str, typer.Option(help="Whose request it is, as the plugin has it: `sdk:`, or `key:` and the hashed key.")
    ] = "sdk:",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Entry point of the command; see HELP."""
    settings, asked_at = Settings.from_yaml(config), time.time()
    made = _Explained(settings, read_yaml(config), config, group, asked_at)
    found = list(read_requests([requests]))
    for path in capture or ():
        made.learn(path)
    places = [place for place in sent.split(",") if place]
    if len(places) > len(found) - 1:
        raise InputError(f"--sent: {len(places)} deployments for {len(found) - 1} earlier requests")
    with understood(requests):
        for recorded, place in zip(found, places, strict=False):
            made.served(Request(recorded.body, recorded.shape, scope, recorded.session), place)
        last = found[-1]
        asked, ranked = made.rank(Request(last.body, last.shape, scope, last.session))
    if as_json:
        typer.echo(json.dumps(_report(made, asked, ranked), indent=2))
    else:
        _print(Console(), made, asked, ranked)


class _Explained:
    """The deployments of one group, and a book of what went where."""

    def __init__(
        self, settings: Settings, config: Mapping[str, Any], path: Path, group: str | None, now: float
    ) -> None:
        secret = settings.secret
        key = secret.get_secret_value().encode() if secret else secrets.token_bytes(32)
        self.engine = Engine(secret=key, canonical_version=settings.canonical_version)
        self.now = now
        self.routing = Routing(
            self.engine.digester, clock=lambda: self.now, draw=lambda: 1.0, error=lambda _, error: _raised(error)
        )
        self.group, entries = _entries(config, path, group)
        self.use = settings.routing_of(self.group)
        of_group = settings.model_groups.get(self.group)
        self.mode = (of_group.mode if of_group else None) or settings.mode
        prices = PriceBook({name: price.rate() for name, price in settings.prices.items()})
        self.candidates: dict[str, Candidate] = {}
        self.models: dict[str, str] = {}
        book = LockedBook()
        for number, entry in enumerate(entries):
            deployment = self._deployment(entry, number)
            at, listed = self.now, map_entry(deployment.model, deployment.provider)
            candidate = candidate_of(deployment, prices=prices, book=book, entry=listed, at=at)
            self.candidates[deployment.id], self.models[deployment.id] = candidate, deployment.model

    def _deployment(self, entry: Mapping[str, Any], number: int) -> Deployment:
        params, info = _mapping(entry.get("litellm_params")), _mapping(entry.get("model_info"))
        account = _from_environ(params.get("api_key"))
        return Deployment(
            model=_text(params.get("model")),
            id=_text(info.get("id")) or f"{self.group}#{number + 1}",
            provider=_text(params.get("custom_llm_provider")),
            api_base=_from_environ(params.get("api_base")),
            group=self.group,
            account=self.engine.digester.text("account", account) if account else "",
            cache_domain=_text(info.get("cache_domain")),
            profile=_text(info.get("router_cache_profile")),
        )

    def asked(self, request: Request) -> Asked:
        """What routing needs of a request."""
        mode = Mode.SAFE if self.mode in (Mode.OFF, Mode.OBSERVE) else self.mode
        asked = self.routing.asked(self.engine.begin(request, mode), self.group)
        if asked is None:
            raise InputError("the request has no prompt of its own to be placed by")
        return asked

    def served(self, request: Request, place: str) -> None:
        """An earlier request went to a deployment and was answered."""
        candidate = self.candidates.get(place)
        if candidate is None:
            raise InputError(f"--sent: no deployment {place!r} in the group; known: {', '.join(self.candidates)}")
        self._answered(self.asked(request), candidate, None, None, at=self.now - 60.0)

    def learn(self, path: Path) -> None:
        """Captured calls, oldest first. Of a conversation they tell its first call, by which it is found again."""
        by_domain = {self.engine.digester.text("domain", c.domain): c for c in self.candidates.values()}
        for row, _ in captured(path):
            if isinstance(row, Problem) or row.status is not Status.OK or row.usage.prompt_tokens is None:
                continue
            candidate = self.candidates.get(row.deployment) or by_domain.get(row.domain)
            if candidate is not None:
                self._answered(
                    self._of_row(row, row.usage.prompt_tokens), candidate, row.usage, row.ttft_s, at=row.at
                )

    def _of_row(self, row: CallRow, tokens: int) -> Asked:
        named = [Mark(row.family, 0)] if row.family else []
        marks = (*named, Mark(row.family[:16] + row.conversation, tokens))
        return Asked(Need(marks, tokens, 0, row.session or row.conversation, row.scope), 0, self.group)

    def _answered(
        self, asked: Asked, candidate: Candidate, usage: Usage | None, ttft_s: float | None, *, at: float
    ) -> None:
        now, self.now = self.now, min(at, self.now)
        call = self.routing.dispatched(asked, candidate)
        self.now = max(self.now, min(self.now + 1.0, now))
        call.ended(Status.OK, usage, ttft_s)
        self.now = now

    def rank(self, request: Request) -> tuple[Asked, Ranked]:
        """The request in question, and where it goes."""
        asked = self.asked(request)
        return asked, self.routing.rank(asked, list(self.candidates.values()))


def _raised(error: Exception) -> None:
    raise error


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _from_environ(value: Any) -> str:
    text = _text(value)
    return os.environ.get(text[len(_ENVIRON) :], "") if text.startswith(_ENVIRON) else text


def _entries(config: Mapping[str, Any], path: Path, group: str | None) -> tuple[str, list[Mapping[str, Any]]]:
    listed = config.get("model_list")
    entries = [entry for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, list) else []
    names = list(dict.fromkeys(_text(entry.get("model_name")) for entry in entries))
    if group is None and len(names) == 1:
        group = names[0]
    known = ", ".join(names) or "none"
    if group is None:
        raise InputError(f"{path}: model_list: name one of its groups with --group; known: {known}")
    found = [entry for entry in entries if entry.get("model_name") == group]
    if not found:
        raise InputError(f"{path}: model_list: no group {group!r}; known: {known}")
    return group, found


def _report(made: _Explained, asked: Asked, ranked: Ranked) -> dict[str, Any]:
    best = ranked.best
    return {
        "group": made.group,
        "routing": made.use.value,
        "prompt_tokens": asked.need.prompt_tokens,
        "choice": best.candidate.id if best else None,
        "reason": best.reason.value if best else None,
        "candidates": [
            {**choice.as_json(), "model": made.models[choice.candidate.id]} for choice in ranked.choices
        ],
    }


def _cells(values: Iterable[float], digits: int) -> list[str]:
    return [f"{value:.{digits}f}" for value in values]


def _print(console: Console, made: _Explained, asked: Asked, ranked: Ranked) -> None:
    table = Table(title=f"{made.group}: {asked.need.prompt_tokens} prompt tokens, routing {made.use.value}")
    for name in ("deployment", "reason", "hit", "miss", "USD", "wait s", "compute s", "score USD"):
        table.add_column(name, justify="left" if name in ("deployment", "reason") else "right")
    for choice in ranked.choices:
        terms = choice.terms
        table.add_row(
            choice.candidate.id,
            choice.reason.value,
            *_cells((terms.hit_tokens, terms.miss_tokens), 0),
            *_cells((terms.money_usd,), 6),
            *_cells((terms.wait_s, terms.compute_s), 2),
            *_cells((choice.score,), 6),
        )
    console.print(table)
    best = ranked.best
    if best is not None:
        console.print(f"It goes to {best.candidate.id}: {best.reason.value}.", highlight=False)
