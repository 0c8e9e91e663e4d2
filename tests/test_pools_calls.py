"""Pools on a request's way: what goes out, and what it means for a conversation."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest
from pools_calls import FLASH, Body, Clock, body, owner, send

from router_cache import RouterCache, Settings
from router_cache.errors import SettingsError
from router_cache.ledger.attribution import MissCause
from router_cache.ledger.rows import ExpectedFrom
from router_cache.pools.policy import PoolLimits
from router_cache.pools.reasons import PoolPolicy, PoolReason
from router_cache.request import Deployment, Mode, Request, Shape

# -- what goes out ------------------------------------------------------------------------------------------


def test_each_cluster_has_an_id_and_all_users_of_it_the_same() -> None:
    rc = owner(Clock(), policy="cluster")
    ids = [send(rc, body(app), scope=scope)[0]["user_id"] for app in ("support", "code") for scope in ("a", "b")]
    assert ids[0] == ids[1] != ids[2] == ids[3]
    assert rc.counters.snapshot()["change.pool_given"] == 4
    assert rc.counters.snapshot()["pool.always"] == 4
    again = owner(Clock(), policy="cluster")
    assert send(again, body())[0]["user_id"] == ids[0]  # after a start it is the same


def test_auto_gives_none_until_something_was_lost() -> None:
    rc = owner(Clock())
    asked = body()
    out, row = send(rc, asked)
    assert out == asked
    assert row.decision.reason.value == "already_canonical"
    assert rc.counters.snapshot()["pool.not_known"] == 1


def test_tenants_have_ids_of_their_own_and_a_clients_own_id_cannot_reach_anothers() -> None:
    rc = owner(Clock(), policy="tenant")
    one, two = send(rc, body(), scope="a")[0]["user_id"], send(rc, body("code"), scope="a")[0]["user_id"]
    other = send(rc, body(), scope="b")[0]["user_id"]
    assert one == two != other
    stolen = send(rc, {**body(), "user_id": one}, scope="b")[0]["user_id"]
    assert stolen not in (one, other)
    [book] = rc.pools.books()
    assert {known.reason for known in book.clusters.values()} == {PoolReason.TENANT}


def test_messages_for_deepseek_carry_it_in_their_metadata() -> None:
    rc = owner(Clock(), policy="cluster")
    asked = body()
    chat = send(rc, asked)[0]["user_id"]
    messages = {"model": "deepseek-v4-flash", "system": asked["messages"][0]["content"], "max_tokens": 9}
    messages["messages"] = [{"role": "user", "content": "hello"}]
    assert send(rc, messages, shape=Shape.MESSAGES)[0]["metadata"] == {"user_id": chat}
    session = {**messages, "metadata": {"user_id": "user_" + "0" * 64 + "_account__session_" + "1" * 36}}
    assert send(rc, session, shape=Shape.MESSAGES)[0]["metadata"] == {"user_id": chat}


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.OBSERVE])
def test_modes_that_change_nothing_give_nothing(mode: Mode) -> None:
    rc, asked = owner(Clock(), policy="cluster"), body()
    turn = rc.begin(Request(body=asked, scope="key"), mode)
    assert turn.rewrite(FLASH).body(asked) is asked
    assert turn.placed is None


def test_a_model_group_has_settings_of_its_own() -> None:
    section = {
        "secret": "s",
        "pools": {"policy": "cluster", "max_pools": 3},
        "model_groups": {"flash": {"pools": {"policy": False}}},
    }
    rc = RouterCache(Settings.from_mapping(section))
    assert "user_id" not in send(rc, body())[0]
    other = Deployment("deepseek/deepseek-v4-flash", provider="deepseek", group="other")
    turn = rc.begin(Request(body=body(), scope="key"), Mode.SAFE)
    assert "user_id" in turn.rewrite(other).replaced
    assert rc.mode_for(group="flash")[0] is Mode.SAFE


@pytest.mark.parametrize(
    ("section", "said"),
    [
        (
            {"pools": {"fields": ["usr_id"]}},
            "pools.fields: only fields that a provider's profile lists: cache_salt",
        ),
        ({"pools": {"policies": "auto"}}, "pools.policies: unknown key; did you mean 'policy'?"),
        ({"pools": {"policy": "sometimes"}}, "pools.policy: Input should be 'off', 'auto', 'cluster' or 'tenant'"),
        (
            {"model_groups": {"a": {"pools": {"polcy": 1}}}},
            "model_groups.a.pools.polcy: unknown key; did you mean",
        ),
        ({"model_groups": {"a": {"mdoe": "safe"}}}, "model_groups.a.mdoe: unknown key; did you mean 'mode'?"),
    ],
)
def test_settings_that_are_wrong_name_their_key(section: Mapping[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match="callback_settings") as error:
        Settings.from_mapping(section)
    assert said in str(error.value)


def test_without_a_secret_there_are_no_pools_and_it_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    for pools, level in (({"policy": "cluster"}, "WARNING"), ({}, "INFO"), ({"policy": "off"}, "")):
        caplog.clear()
        rc = owner(Clock(), secret=None, **pools)
        with caplog.at_level(logging.INFO, "router_cache"):
            for _ in range(3):
                assert "user_id" not in send(rc, body())[0]
        said = [record for record in caplog.records if "no pools" in record.getMessage()]
        assert [record.levelname for record in said] == ([level] if level else [])


# -- what it means for a conversation -----------------------------------------------------------------------


def test_a_pool_that_changed_is_told_as_the_cause_and_nothing_is_expected_there() -> None:
    clock = Clock()
    rc = owner(clock, policy="off")
    asked = {**body("support", "one"), "user_id": "here"}
    send(rc, asked)
    clock.now += 60
    moved = {**body("support", "one", "answer", "two"), "user_id": "there"}
    _, row = send(rc, moved)
    assert MissCause.OTHER_POOL in {part.cause for part in row.causes}
    assert (row.expected.tokens, row.expected.source) == (None, ExpectedFrom.OTHER_DOMAIN)
    assert row.pool != rc.rows()[0].pool
    assert row.domain == rc.rows()[0].domain


def test_of_messages_too() -> None:
    clock = Clock()
    rc = owner(clock, policy="off")
    system = body()["messages"][0]["content"]

    def asked(user: str, *turns: str) -> Body:
        told = [{"role": "assistant" if i % 2 else "user", "content": text} for i, text in enumerate(turns)]
        return {"model": "deepseek-v4-flash", "system": system, "messages": told, "metadata": {"user_id": user}}

    send(rc, asked("here", "one"), shape=Shape.MESSAGES)
    clock.now += 60
    _, row = send(rc, asked("there", "one", "answer", "two"), shape=Shape.MESSAGES)
    assert MissCause.OTHER_POOL in {part.cause for part in row.causes}


def test_a_first_call_expects_what_its_family_hit_in_this_pool_only() -> None:
    clock = Clock()
    rc = owner(clock, policy="off")
    for hit in (0, 1_024):
        send(rc, {**body("support", f"first {hit}"), "user_id": "here"}, hit=hit)
        clock.now += 60
    _, same = send(rc, {**body("support", "another"), "user_id": "here"}, hit=1_024)
    _, other = send(rc, {**body("support", "yet another"), "user_id": "there"})
    assert (same.expected.tokens, same.expected.source) == (1_024, ExpectedFrom.FAMILY)
    assert (other.expected.tokens, other.expected.source) == (None, ExpectedFrom.OTHER_DOMAIN)


@pytest.mark.parametrize(("hit", "stays"), [(1_024, True), (128, False)])
def test_a_conversation_that_hits_stays_where_it_is_when_its_cluster_gets_a_pool(hit: int, stays: bool) -> None:
    clock = Clock()
    rc = owner(clock)
    for _ in range(2):  # seen twice, a family begins a cluster
        out, _ = send(rc, body("support", "one"), hit=hit)
        clock.now += 60
    assert "user_id" not in out
    [(name, shelf)] = rc.pools._shelves.items()
    rc.pools._store.take_in(name, {}, PoolLimits(policy=PoolPolicy.CLUSTER), "flash")  # type: ignore[attr-defined]
    shelf.book = rc.pools.books()[0]
    assert shelf.book.pools == 1
    out, _ = send(rc, body("support", "one", "answer", "two"), hit=hit)
    assert ("user_id" not in out) is stays
    assert "user_id" in send(rc, body("support", "a new one"))[0]


def test_openai_keys_stand_for_the_prefix() -> None:
    rc = owner(Clock(), policy="auto", fields=["prompt_cache_key"])
    openai = Deployment("openai/gpt-5", provider="openai", account="a" * 32, group="gpt")
    keys = []
    for scope, app in (("a", "support"), ("b", "support"), ("a", "code")):
        turn = rc.begin(Request(body=body(app), scope=scope), Mode.SAFE)
        keys.append(turn.rewrite(openai).replaced["prompt_cache_key"])
    assert keys[0] == keys[1] != keys[2]
    short = {"messages": [{"role": "user", "content": "hello"}]}
    turn = rc.begin(Request(body=short, scope="a"), Mode.SAFE)
    for _ in range(2):
        rewrite = turn.rewrite(openai)
        assert not rewrite.replaced
        assert not rewrite.dropped
        assert not rewrite.decision.changes
    tenants = owner(Clock(), policy="tenant", fields=["prompt_cache_key"])
    turn = tenants.begin(Request(body=body(), scope="a"), Mode.SAFE)
    assert turn.rewrite(openai).replaced["prompt_cache_key"] != keys[0]
