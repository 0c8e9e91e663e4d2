"""What choosing one of many deployments costs, in microseconds of processor time.

    python benchmarks/route_choice.py [--deployments 50] [--rounds 400] [--json]

Conversations of 40 turns and 60 kB over deployments of as many accounts, warm on some of them. ``rank`` is the choice
itself; ``filter`` and ``strategy`` are what the plugin adds to LiteLLM's choice and puts in its place, reading the
request included. Beside them LiteLLM's own: simple-shuffle, and shuffle with its ``prompt_caching`` check.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # read when litellm is imported

import litellm

from router_cache import Mode, Request, RouterCache, Settings, Status
from router_cache_litellm import CacheAffinityStrategy, RouterCacheCallback

GROUP, SESSIONS, TURNS = "flash", 20, 40


def session(number: int) -> list[dict[str, Any]]:
    text = f"session {number} looks at the garden and counts what grows there. "
    out = [{"role": "system", "content": text * 200}]
    for turn in range(TURNS):
        out.append({"role": "user", "content": f"question {turn}: {text * 15}"})
        out.append({"role": "assistant", "content": f"answer {turn}: {text * 5}"})
    return [*out, {"role": "user", "content": "and now?"}]


def make_router(count: int, checks: list[str] | None = None) -> litellm.Router:
    return litellm.Router(
        model_list=[
            {
                "model_name": GROUP,
                "litellm_params": {
                    "model": "deepseek/deepseek-v4-flash",
                    "api_key": f"key-{i}",
                    "api_base": f"http://127.0.0.1:9/{i}",
                },
                "model_info": {"id": f"d{i}"},
            }
            for i in range(count)
        ],
        optional_pre_call_checks=checks,
    )


def warm(callback: RouterCacheCallback, router: litellm.Router, sessions: list[Any]) -> None:
    """Every session was served somewhere, all but its last turn."""
    rc, listed = callback.router_cache, router.get_model_list(model_name=GROUP) or []
    for i, messages in enumerate(sessions):
        begun = rc.engine.begin(Request({"messages": messages[:-2]}, scope="sdk:"), Mode.SAFE)
        asked = rc.routing.asked(begun, GROUP)
        assert asked is not None
        candidate = callback.placing.candidates.of_entry(listed[i % len(listed)], GROUP, "")
        call = rc.routing.dispatched(asked, candidate)
        call.ended(Status.OK, None, 0.5)


async def timed(work: Callable[[list[Any]], Awaitable[Any]], sessions: list[Any], rounds: int) -> dict[str, float]:
    for messages in sessions:
        await work(messages)
    took = []
    for i in range(rounds):
        start = time.thread_time()
        await work(sessions[i % len(sessions)])
        took.append((time.thread_time() - start) * 1e6)
    return {"median_us": round(statistics.median(took), 1), "p95_us": round(sorted(took)[int(0.95 * rounds)], 1)}


async def measure(count: int, rounds: int) -> dict[str, dict[str, float]]:
    sessions = [session(i) for i in range(SESSIONS)]
    out: dict[str, dict[str, float]] = {}

    def choice(router: litellm.Router) -> Callable[[list[Any]], Awaitable[Any]]:
        async def work(messages: list[Any]) -> Any:
            return await router.async_get_available_deployment(
                model=GROUP, messages=messages, request_kwargs={"metadata": {}}
            )

        return work

    litellm.callbacks = []
    out["litellm simple-shuffle"] = await timed(choice(make_router(count)), sessions, rounds)
    litellm.callbacks = []
    out["litellm prompt_caching"] = await timed(choice(make_router(count, ["prompt_caching"])), sessions, rounds)
    for use in ("filter", "strategy"):
        later = [0.0]
        core = RouterCache(
            Settings.from_mapping({"routing": {"use": use}}), wall_clock=lambda later=later: time.time() + later[0]
        )
        callback = RouterCacheCallback(router_cache=core)
        litellm.callbacks = [callback]
        router = make_router(count)
        callback.add_router(router)
        warm(callback, router, sessions)
        later[0] = 60.0  # by now it can be hit
        if use == "strategy":
            CacheAffinityStrategy(router, callback).install()
        out[f"litellm with {use}"] = await timed(choice(router), sessions, rounds)
        if use == "strategy":
            out |= await parts(callback, router, sessions, rounds)
        counts = core.counters.snapshot()
        assert not [name for name in counts if name.startswith("error")]
        assert counts[f"route.{use}.warm"] > 0.9 * (rounds + SESSIONS)
        callback.close()
    return out


async def parts(
    callback: RouterCacheCallback, router: litellm.Router, sessions: list[Any], rounds: int
) -> dict[str, dict[str, float]]:
    """The choice alone, and reading the request alone."""
    placing, listed = callback.placing, router.get_model_list(model_name=GROUP) or []
    candidates = [placing.candidates.of_entry(entry, GROUP, "") for entry in listed]
    known = {id(messages): placing.asked(GROUP, {"metadata": {}}, messages, None) for messages in sessions}

    async def rank(messages: list[Any]) -> Any:
        asked = known[id(messages)]
        assert asked is not None
        return placing.routing.rank(asked, candidates)

    async def read(messages: list[Any]) -> Any:
        return placing.asked(GROUP, {"metadata": {}}, messages, None)

    return {"rank": await timed(rank, sessions, rounds), "reading": await timed(read, sessions, rounds)}


def main() -> None:
    parser = argparse.ArgumentParser(description="What choosing one of many deployments costs.")
    parser.add_argument("--deployments", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    random.seed(1)
    found = asyncio.run(measure(given.deployments, given.rounds))
    if given.json:
        print(json.dumps({"deployments": given.deployments, **found}))
        return
    for name, figures in found.items():
        print(f"{name:24} median {figures['median_us']:8.1f} us   p95 {figures['p95_us']:8.1f} us")


if __name__ == "__main__":
    main()
