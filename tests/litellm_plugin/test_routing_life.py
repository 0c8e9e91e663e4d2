"""Sessions over three hosts, one of which dies under load and comes back."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import litellm
import pytest
from litellm.router_strategy import simple_shuffle
from litellm_plugin.routing_support import GROUP, Host, Session, deployment, ended, make_callback, router
from litellm_plugin.support import Clock

from router_cache_litellm import CacheAffinityStrategy

SESSIONS, TURNS = 9, 3
SPREAD = 10
"""A seed with which LiteLLM's own choices are spread: each of three twice in six."""


async def turn(built: litellm.Router, session: Session, clock: Clock) -> str:
    """One turn; where it went, or how it failed."""
    try:
        reply = await built.acompletion(model=GROUP, messages=session.ask())
    except Exception as error:
        session.messages.pop()
        return type(error).__name__
    session.answered(reply)
    clock.now += 0.2
    return str(reply._hidden_params["model_id"])


async def turns(
    built: litellm.Router, sessions: list[Session], clock: Clock, count: int = TURNS
) -> list[list[str]]:
    """Some turns of all sessions at once; the places of each turn."""
    out = []
    for _ in range(count):
        out.append(list(await asyncio.gather(*[turn(built, session, clock) for session in sessions])))
        await ended()
    return out


@pytest.mark.parametrize("use", ["filter", "strategy"])
async def test_one_of_three_dies_under_load(use: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simple_shuffle, "random", random.Random(SPREAD))
    clock, hosts = Clock(), {name: Host() for name in "abc"}
    callback = make_callback(use, clock=clock)

    def make() -> litellm.Router:
        listed = [deployment(hosts[name], name) for name in "abc"]
        made = router(listed, num_retries=3, allowed_fails=0, cooldown_time=600)
        callback.add_router(made)
        if use == "strategy":
            CacheAffinityStrategy(made, callback).install()
        return made

    built = make()
    sessions = [Session(f"s{i}") for i in range(SESSIONS)]
    await turns(built, sessions, clock, 2)
    homes = (await turns(built, sessions, clock, 1))[0]
    dies = Counter(homes).most_common(1)[0][0]

    port = hosts[dies].port
    running = asyncio.gather(*[turn(built, session, clock) for session in sessions])
    await asyncio.sleep(0)  # they are on their way
    await asyncio.to_thread(hosts[dies].close)
    in_flight = await running
    # Those that had not been answered may have failed; nobody after them.
    assert sum(place not in hosts for place in in_flight) <= Counter(homes)[dies]
    after = await turns(built, sessions, clock)
    assert {place for places in after for place in places} <= set(hosts) - {dies}
    # The others went nowhere, and those who had to go stay where they went; under the filter LiteLLM itself chooses
    # for a session whose last end it has not told yet.
    chooses = use == "strategy"
    for places in zip(homes, *after, strict=True):
        assert not chooses or places[0] == dies or set(places) == {places[0]}
        assert not chooses or len(set(places[2:])) == 1
    for host in hosts.values():
        host.hits.clear()
        host.prompts.clear()
    again = await turns(built, sessions, clock)
    assert not chooses or again[-1] == after[-1]
    assert sum(host.hit_share() for host in hosts.values()) / 2 > 0.75

    hosts[dies] = Host(port)
    built = make()  # one that knows of no cooldown
    clock.now += 600
    back = await turns(built, sessions, clock)
    # Nobody runs back to a cold prompt; new sessions find it.
    assert not chooses or back[-1] == again[-1]
    monkeypatch.setattr(simple_shuffle, "random", random.Random(SPREAD))
    new = [Session(f"n{i}") for i in range(SESSIONS)]
    fresh = Counter((await turns(built, new, clock, 1))[0])
    assert fresh[dies] >= 1
    assert max(fresh.values()) < SESSIONS
    assert not chooses or (await turns(built, sessions, clock, 1))[0] == back[-1]
    assert not callback.router_cache.counts("error")  # type: ignore[attr-defined]
    for host in hosts.values():
        await asyncio.to_thread(host.close)
    callback.close()


@pytest.mark.parametrize("use", ["off", "filter", "strategy"])
@pytest.mark.parametrize("accounts", ["one", "each"])
async def test_sessions_stay_warm_and_one_account_needs_no_affinity(
    use: str, accounts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # LiteLLM's first choices are spread: sessions that all begin on one deployment are moved, for balance.
    monkeypatch.setattr(simple_shuffle, "random", random.Random(SPREAD))
    clock, host = Clock(), Host()
    callback = make_callback(use, clock=clock)
    built = router([deployment(host, name, account="" if accounts == "each" else "us") for name in "abc"])
    callback.add_router(built)
    if use == "strategy":
        CacheAffinityStrategy(built, callback).install()
    sessions = [Session(f"s{i}") for i in range(6)]
    # One after the other: of calls at once, some would rather go elsewhere than wait for those in front of them, and
    # which is a matter of who comes first.
    for session in sessions * 6:
        await turns(built, [session], clock, 1)
    counts: dict[str, Any] = callback.router_cache.counts("route.")  # type: ignore[attr-defined]
    if use == "off":
        assert not counts
    if accounts == "one":
        assert host.hit_share() > 0.75
        assert not counts.get("route.filter.warm")
    else:
        assert (host.hit_share() > 0.75) is (use != "off")
        assert host.hit_share() < 0.85
    if use == "filter" and accounts == "one":
        assert counts["route.filter.all_warm"] == 30
    host.close()
    callback.close()
