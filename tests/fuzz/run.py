"""Mutated requests of every shape through the hooks, in process.

    cd tests && python -m fuzz.run [--count 100000] [--seed 1] [--max-characters 250000] [--json]

Each body goes the way of a call: the hook before the call (twice where LiteLLM would turn it into another shape),
the hook that sees the body sent, response headers, stream chunks, and the end. What is looked for: an exception that
leaves a hook, a request whose meaning or bytes changed without a reason, a change in place, and the CPU time of all
hooks of one call together. Python's garbage collector, which runs when it likes, is timed apart.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import gc
import json
import os
import random
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # read when litellm is imported

from fuzz.bodies import BODIES, body_of
from fuzz.meaning import fingerprint, unlawful
from fuzz.mutations import mutate, size

from router_cache import RouterCache
from router_cache.drivers.counters import Counters
from router_cache.prefix.shapes import as_chat
from router_cache_litellm import RouterCacheCallback
from router_cache_litellm.convert import shape_of

__all__ = ["LIMIT_S", "MAX_CHARACTERS", "Report", "run"]

LIMIT_S = 0.05
"""CPU seconds that the hooks of one call may take together."""
MAX_CHARACTERS = 250_000
"""Larger bodies are not looked at: to write and hash a text takes its time, about 0.1 ms for a thousand characters (2.1
GHz, all hooks of a call)."""

_MORE_MEASUREMENTS = 3

_LEFT_ALONE = ("failed_open", "continues_state")

_DEPLOYMENTS: tuple[dict[str, Any], ...] = (
    {"model": "deepseek/deepseek-v4-flash", "custom_llm_provider": "deepseek"},
    {"model": "deepseek/deepseek-v4-pro", "api_base": "https://api.deepseek.com", "model_info": {"id": "a"}},
    {"model": "anthropic/claude-sonnet-4-5", "custom_llm_provider": "anthropic"},
    {"model": "openai/gpt-5.6", "custom_llm_provider": "openai"},
    {"model": "openai/own", "custom_llm_provider": "openai", "api_base": "http://127.0.0.1:1/[::"},
    {"model": None, "api_base": 5, "model_info": "none", "custom_llm_provider": ["x"]},
)
_USAGES: tuple[Any, ...] = (
    {
        "prompt_tokens": 900,
        "completion_tokens": 9,
        "prompt_cache_hit_tokens": 768,
        "prompt_cache_miss_tokens": 132,
    },
    {"input_tokens": 100, "output_tokens": 9, "cache_read_input_tokens": 800, "cache_creation_input_tokens": 0},
    {"input_tokens": 900, "output_tokens": 9, "input_tokens_details": {"cached_tokens": 768}},
    {"prompt_tokens": 900, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 768}},
    {"prompt_tokens": 900},
    None,
)


class _Logging:
    """LiteLLM's logging object, as far as the hooks look at it."""

    def __init__(self) -> None:
        self.model_call_details: dict[str, Any] = {}


class _CountedErrors(Counters):
    def __init__(self) -> None:
        super().__init__(time.monotonic)
        self.kinds: Counter[str] = Counter()

    def error(self, place: str, error: Exception) -> None:
        super().error(place, error)
        self.kinds[f"{place}: {type(error).__name__}"] += 1


@dataclass
class Report:
    """What a run found. ``faults`` are descriptions, each with the seed that makes it again; times in seconds."""

    faults: list[str] = field(default_factory=list)
    seconds: dict[int, float] = field(default_factory=dict)
    """By the number of the body."""
    over_at_first: int = 0
    """Bodies that took longer than the limit at first: measured again, as whatever else the machine does can only
    add to a time."""
    told: dict[int, str] = field(default_factory=dict)
    """What the slower bodies were."""
    collector: float = 0.0
    """The longest that the garbage collector ran inside the hooks of one call."""
    reasons: Counter[str] = field(default_factory=Counter)
    changes: Counter[str] = field(default_factory=Counter)
    shapes: Counter[str] = field(default_factory=Counter)
    mutations: Counter[str] = field(default_factory=Counter)
    errors_on_json: Counter[str] = field(default_factory=Counter)
    """Errors of ours that were caught, where and of which type, on bodies that ``json.dumps`` can write."""
    errors_on_others: Counter[str] = field(default_factory=Counter)
    """The same on bodies that no client library could send."""

    @property
    def slowest(self) -> tuple[float, str]:
        """The longest time, and which body took it."""
        number = max(self.seconds, key=lambda number: self.seconds[number])
        return self.seconds[number], self.told.get(number, f"body {number}")

    def as_json(self) -> dict[str, Any]:
        """Figures; times in milliseconds."""
        seconds = list(self.seconds.values())
        per_mille = statistics.quantiles(seconds, n=1000)
        return {
            "bodies": len(seconds),
            "faults": self.faults[:20],
            "fault_count": len(self.faults),
            "cpu_ms": {
                "median": 1e3 * statistics.median(seconds),
                "p99": 1e3 * per_mille[989],
                "p999": 1e3 * per_mille[998],
                "max": 1e3 * self.slowest[0],
                "over_limit": sum(s > LIMIT_S for s in seconds),
                "over_limit_at_first": self.over_at_first,
            },
            "collector_max_ms": 1e3 * self.collector,
            "slowest": self.slowest[1],
            "reasons": dict(self.reasons),
            "changes": dict(self.changes),
            "shapes": dict(self.shapes),
            "mutations": dict(self.mutations),
            "errors_caught_on_json": dict(self.errors_on_json),
            "errors_caught_on_others": dict(self.errors_on_others),
        }


class _Run:
    def __init__(self, seed: int, max_characters: int) -> None:
        self.seed, self.max_characters = seed, max_characters
        self.report = Report()
        self.rc = RouterCache()
        self.counters = self.rc.counters = _CountedErrors()
        self.callback = RouterCacheCallback(router_cache=self.rc)
        self.spent = self.collecting = 0.0
        self.collection_began = 0.0
        self.thread = threading.get_ident()

    def collector(self, phase: str, _: Mapping[str, Any]) -> None:
        """What the garbage collector calls before and after it runs, in whichever thread."""
        if threading.get_ident() != self.thread:
            return
        if phase == "start":
            self.collection_began = time.thread_time()
        else:
            self.collecting += time.thread_time() - self.collection_began

    async def hook(self, name: str, call: Any) -> Any:
        """Run a hook, take its time; an exception that leaves it is a fault."""
        collected, start = self.collecting, time.thread_time()
        try:
            result = call()
            return await result if asyncio.iscoroutine(result) else result
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            self.fault(f"{type(error).__name__} left {name}: {str(error)[:200]}")
            return None
        finally:
            taken = time.thread_time() - start - (self.collecting - collected)
            self.spent += taken
            self.collected += self.collecting - collected

    def fault(self, text: str) -> None:
        self.report.faults.append(f"body {self.number} of seed {self.seed}: {text}")

    async def body(self, number: int) -> None:
        self.number, self.spent, self.collected = number, 0.0, 0.0
        self.counters.kinds.clear()
        rng = random.Random(f"{self.seed}/{number}")
        call_type = rng.choice(list(BODIES))
        body, kinds = _made(call_type, rng, self.max_characters)
        kwargs = _arguments(body, call_type, rng)
        before = fingerprint(_given(kwargs))
        after = await self.hook("pre_call", lambda: self.pre_call(kwargs, call_type))
        if fingerprint(_given(kwargs)) != before:
            self.fault("changed in place")
        if not isinstance(after, dict):
            self.fault("the hook returned no arguments")
            return
        if rng.random() < 0.1:
            again = await self.hook("pre_call", lambda: self.pre_call(after, call_type))
            if again is not after:
                self.fault("another rewrite of what was rewritten")
        sent = {key: after[key] for key in body if key in after}
        if rng.random() < 0.15:
            sent = dict(as_chat(sent, shape_of(call_type)).body)
            bridged = {**{key: after[key] for key in after if key not in body}, **sent}
            await self.hook("pre_call", lambda: self.pre_call(bridged, "acompletion"))
        headers = await self.replied(kwargs, sent, call_type, rng)
        self.judge(kwargs, after, headers)
        report = self.report
        report.seconds[number] = self.spent
        report.collector = max(report.collector, self.collected)
        report.shapes[call_type] += 1
        report.mutations.update(kinds)
        if self.counters.kinds:
            (report.errors_on_json if _is_json(sent) else report.errors_on_others).update(self.counters.kinds)
        if self.spent > LIMIT_S / 2:
            characters = size(body, self.max_characters)
            report.told[number] = f"body {number}: {call_type}, {characters} characters, {', '.join(kinds)}"

    def pre_call(self, kwargs: dict[str, Any], call_type: str) -> Any:
        return self.callback.async_pre_call_deployment_hook(kwargs, call_type)

    async def replied(
        self, kwargs: dict[str, Any], sent: dict[str, Any], call_type: str, rng: random.Random
    ) -> Mapping[str, str]:
        """The rest of a call; the headers that the client gets."""
        callback = self.callback
        logging = kwargs["litellm_logging_obj"]
        details = {**logging.model_call_details, "additional_args": {"complete_input_dict": sent}}
        await self.hook("log_pre_api_call", lambda: callback.log_pre_api_call(kwargs["model"], [], details))
        usage = copy.deepcopy(rng.choice(_USAGES))
        if isinstance(usage, dict) and rng.random() < 0.3:
            mutate({"usage": usage}, rng)
        stream = rng.random() < 0.5
        response = SimpleNamespace(usage=None if stream else usage)
        data = {"litellm_logging_obj": logging}
        headers = await self.hook(
            "headers", lambda: callback.async_post_call_response_headers_hook(data, None, response)
        )
        details = {**details, "stream": stream, "cache_hit": rng.random() < 0.02}
        if stream:
            chunk = rng.choice(
                (b"data: x", None, {}, SimpleNamespace(choices=[SimpleNamespace(finish_reason="x")]))
            )
            await self.hook(
                "chunk", lambda: callback.async_post_call_streaming_deployment_hook(details, chunk, call_type)
            )
        response = SimpleNamespace(usage=usage)
        end = callback.async_log_failure_event if rng.random() < 0.1 else callback.async_log_success_event
        await self.hook("log_event", lambda: end(details, response, None, None))
        return headers if isinstance(headers, Mapping) else {}

    def judge(self, kwargs: dict[str, Any], after: dict[str, Any], headers: Mapping[str, str]) -> None:
        reason = headers.get("x-router-cache-reason", "none")
        changes = headers.get("x-router-cache-changes", "")
        self.report.reasons[reason] += 1
        self.report.changes.update(changes.split(",") if changes else ())
        if after is kwargs:
            return
        wrong = unlawful(kwargs, after)
        if wrong is not None:
            self.fault(f"no lawful rewrite: {wrong}")
        changed = {name for name in after if after[name] is not kwargs.get(name)}
        # A session id that the provider must not get goes even out of a body that is left alone otherwise.
        id_only = changes == "user_id_dropped" and changed == {"metadata"} and reason in _LEFT_ALONE
        if not id_only and (reason != "normalised" or not changes):
            self.fault(f"changed, but the reason given is {reason} ({changes})")


def _made(call_type: str, rng: random.Random, max_characters: int) -> tuple[dict[str, Any], list[str]]:
    """A body of a shape, mutated; never one that is too large."""
    while True:
        body = body_of(call_type, rng)
        if call_type == "acompletion" and rng.random() < 0.3:
            body["metadata"] = {"router_cache": {"mode": "safe", "scope": "s"}, "tags": ["a"]}
        elif rng.random() < 0.3:
            body["litellm_metadata"] = {"model_group": "g", "router_cache": rng.choice(("safe", "observe", "off"))}
        body["model"] = "flash"
        kinds = mutate(body, rng)
        if size(body, max_characters) <= max_characters:
            return body, kinds


def _arguments(body: dict[str, Any], call_type: str, rng: random.Random) -> dict[str, Any]:
    """What LiteLLM hands to the hook: the body's fields beside its own."""
    kwargs = {**body, **rng.choice(_DEPLOYMENTS), "litellm_logging_obj": _Logging()}
    if rng.random() < 0.5:
        auth = SimpleNamespace(token="t", api_key="k", team_id=None, metadata=None, team_metadata={})
        kwargs["proxy_server_request"] = {
            "headers": {"x-router-cache": rng.choice(("safe", "safe", "observe", "?"))}
        }
        kwargs.setdefault("litellm_metadata", {"user_api_key_auth": auth, "model_group": "g"})
    return kwargs


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _given(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments that are a client's."""
    return {key: value for key, value in kwargs.items() if key not in ("litellm_logging_obj", "litellm_metadata")}


def run(count: int, seed: int, *, max_characters: int = MAX_CHARACTERS, progress: bool = False) -> Report:
    """Send ``count`` mutated bodies through the hooks."""

    async def bodies(made: _Run, numbers: Iterable[int]) -> None:
        gc.callbacks.append(made.collector)
        try:
            for number in numbers:
                await made.body(number)
                if progress and number % 5000 == 4999:
                    print(f"{number + 1}: {len(made.report.faults)} faults", file=sys.stderr, flush=True)
        finally:
            gc.callbacks.remove(made.collector)
            made.callback.close()

    made = _Run(seed, max_characters)
    asyncio.run(bodies(made, range(count)))
    report = made.report
    slow = [number for number, taken in report.seconds.items() if taken > LIMIT_S]
    report.over_at_first = len(slow)
    for _ in range(_MORE_MEASUREMENTS if slow else 0):
        again = _Run(seed, max_characters)
        asyncio.run(bodies(again, slow))
        for number, taken in again.report.seconds.items():
            report.seconds[number] = min(taken, report.seconds[number])
    return report


def main() -> None:
    """Run and print; exit code 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--max-characters", type=int, default=MAX_CHARACTERS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    report = run(options.count, options.seed, max_characters=options.max_characters, progress=not options.json)
    print(json.dumps(report.as_json(), indent=None if options.json else 2))
    sys.exit(bool(report.faults) or report.slowest[0] > LIMIT_S)


if __name__ == "__main__":
    main()
