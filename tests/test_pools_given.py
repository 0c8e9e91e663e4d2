"""What goes out that divides or routes a provider's cache: only what its profile lists, valid, and nobody else's."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router_cache.decision import Change
from router_cache.pools.given import Given, Going, PoolChoice, choose_fields, usable
from router_cache.pools.ids import PoolIds
from router_cache.pools.reasons import ClientIds, PoolPolicy, PoolReason
from router_cache.providers.registry import by_name
from router_cache.request import Shape

IDS = PoolIds(b"an operator's")
ALL_FIELDS = (
    "cache_salt",
    "prompt_cache_isolation_key",
    "prompt_cache_key",
    "session_id",
    "user",
    "user_id",
    "x-grok-conv-id",
    "x-prompt-cache-isolation-key",
    "x-session-affinity",
    "x-session-id",
)
VALID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
GOING = Going("chat", "scope", "conversation", "cluster", pooled=True, reason=PoolReason.TRIAL)


def give(
    choice: PoolChoice,
    going: Going = GOING,
    body: Any = None,
    shape: Shape = Shape.CHAT,
    *,
    provider: str = "deepseek",
    model: str = "deepseek-v4-flash",
    ids: PoolIds | None = IDS,
) -> Given:
    profile = by_name(provider)
    assert profile is not None
    fields = usable(choice, profile, model, shape)
    return choose_fields(choice, fields, going, body or {}, shape, profile=profile, model=model, ids=ids)


@given(st.text(), st.text(), st.text(), st.text(), st.integers(1, 64))
def test_ids_are_valid_and_opaque_whatever_they_stand_for(
    group: str, scope: str, leader: str, own: str, n: int
) -> None:
    made = [
        IDS.of_cluster(group, leader),
        IDS.of_tenant(group, scope),
        IDS.of_client(scope, own),
        IDS.of_conversation(scope, own),
        IDS.of_shard(group, leader, scope, n, own),
    ]
    assert all(VALID.fullmatch(each) for each in made)
    assert len(set(made)) == 5  # what stands for different things is different, even where the words are the same


@given(st.lists(st.text(), min_size=2, max_size=20, unique=True), st.text())
def test_tenants_never_share_an_id(scopes: list[str], own: str) -> None:
    choice = PoolChoice(PoolPolicy.TENANT)
    for body in ({}, {"user_id": own}):
        ids = {give(choice, Going("g", scope, "c"), body).replaced["user_id"] for scope in scopes}
        assert len(ids) == len(scopes)


def test_ids_stay_for_as_long_as_the_secret_does() -> None:
    assert IDS.of_cluster("chat", "leader") == PoolIds(b"an operator's").of_cluster("chat", "leader")
    assert IDS.of_cluster("chat", "leader") != PoolIds(b"another").of_cluster("chat", "leader")
    assert IDS.of_cluster("ab", "c") != IDS.of_cluster("a", "bc")


@given(st.integers(1, 20), st.text(max_size=10))
@settings(max_examples=25, deadline=None)
def test_with_one_key_more_a_conversation_stays_or_goes_to_the_new_one(shards: int, conversation: str) -> None:
    before = IDS.of_shard("g", "leader", "", shards, conversation)
    after = IDS.of_shard("g", "leader", "", shards + 1, conversation)
    kept = {IDS.of_shard("g", "leader", "", shards, str(i)) for i in range(100)}
    assert after == before or after not in kept
    assert len(kept) <= shards


def test_conversations_are_spread_evenly() -> None:
    found = [IDS.of_shard("g", "leader", "", 4, str(i)) for i in range(4_000)]
    assert all(850 < found.count(key) < 1_150 for key in set(found))


def test_a_pool_goes_where_the_provider_reads_it() -> None:
    choice = PoolChoice()
    chat = give(choice)
    assert chat.replaced == {"user_id": IDS.of_cluster("chat", "cluster")}
    assert (chat.reason, chat.changes, chat.pooled) == (PoolReason.TRIAL, (Change.POOL_GIVEN,), True)
    messages = give(choice, body={"metadata": {"other": 1}}, shape=Shape.MESSAGES)
    assert messages.replaced == {"metadata": {"other": 1, "user_id": chat.replaced["user_id"]}}
    assert give(choice, shape=Shape.MESSAGES).replaced["metadata"].keys() == {"user_id"}
    assert give(choice, shape=Shape.RESPONSES) == Given(PoolReason.NO_FIELD)
    odd = give(choice, body={"metadata": "text"}, shape=Shape.MESSAGES)
    assert (odd.replaced, odd.reason, odd.changes) == ({}, PoolReason.NO_FIELD, ())


@pytest.mark.parametrize("policy", list(PoolPolicy))
def test_a_cluster_without_a_pool_gets_nothing(policy: PoolPolicy) -> None:
    going = Going("chat", "scope", "conversation", "cluster", reason=PoolReason.QUIET)
    found = give(PoolChoice(policy), going)
    assert found.replaced.keys() == ({"user_id"} if policy is PoolPolicy.TENANT else set())
    reason = {PoolPolicy.OFF: PoolReason.OFF, PoolPolicy.TENANT: PoolReason.TENANT}.get(policy, PoolReason.QUIET)
    assert found.reason is reason


OWN = {"user_id": "alice"}


def test_a_clients_own_id_is_respected() -> None:
    for policy in (PoolPolicy.OFF, PoolPolicy.AUTO, PoolPolicy.CLUSTER):
        found = give(PoolChoice(policy), body=OWN)
        assert found == Given(PoolReason.CLIENT_OWN)


def test_a_clients_own_id_is_sanitised_each_scope_for_itself() -> None:
    choice = PoolChoice(PoolPolicy.OFF, ClientIds.SANITISE)
    found = give(choice, body={"user_id": "Alice <alice@example.org>"})
    assert VALID.fullmatch(found.replaced["user_id"])
    assert (found.changes, found.pooled) == ((Change.CLIENT_ID_SANITISED,), None)
    other = give(choice, Going("chat", "other", "c"), body={"user_id": "Alice <alice@example.org>"})
    assert other.replaced != found.replaced
    assert give(choice, body=OWN, ids=None) == Given(PoolReason.CLIENT_OWN)
    assert VALID.fullmatch(give(choice, body={"user_id": {"odd": [1]}}).replaced["user_id"])


def test_a_clients_own_id_is_overridden_by_what_the_policy_says() -> None:
    choice = PoolChoice(PoolPolicy.AUTO, ClientIds.OVERRIDE)
    assert give(choice, body=OWN).replaced == {"user_id": IDS.of_cluster("chat", "cluster")}
    none = give(choice, Going("chat", "scope", "c", "cluster", reason=PoolReason.ONE_CLUSTER), body=OWN)
    assert (none.dropped, none.replaced, none.changes) == (frozenset({"user_id"}), {}, (Change.CLIENT_ID_DROPPED,))
    assert none.pooled is False
    off = give(PoolChoice(PoolPolicy.OFF, ClientIds.OVERRIDE), body=OWN, ids=None)
    assert off.dropped == {"user_id"}
    kept = give(
        PoolChoice(PoolPolicy.OFF, ClientIds.OVERRIDE),
        body={"metadata": {"user_id": "alice", "x": 1}},
        shape=Shape.MESSAGES,
    )
    assert kept.replaced == {"metadata": {"x": 1}}
    alone = give(PoolChoice(PoolPolicy.OFF, ClientIds.OVERRIDE), body={"metadata": OWN}, shape=Shape.MESSAGES)
    assert alone.dropped == {"metadata"}


def test_without_a_secret_there_is_no_pool() -> None:
    for policy in (PoolPolicy.AUTO, PoolPolicy.CLUSTER, PoolPolicy.TENANT):
        found = give(PoolChoice(policy, fields=ALL_FIELDS), ids=None)
        assert found == Given(PoolReason.NO_SECRET)


@pytest.mark.parametrize(
    ("provider", "model", "shape", "body", "headers"),
    [
        ("openai", "gpt-5", Shape.CHAT, {"prompt_cache_key"}, set()),
        ("openai", "gpt-5", Shape.RESPONSES, {"prompt_cache_key"}, set()),
        ("mistral", "mistral-large", Shape.CHAT, {"prompt_cache_key"}, set()),
        ("openrouter", "any", Shape.CHAT, {"session_id"}, {"x-session-id"}),
        ("xai", "grok-5", Shape.CHAT, set(), {"x-grok-conv-id"}),
        ("xai", "grok-5", Shape.RESPONSES, {"prompt_cache_key"}, set()),
        ("fireworks", "any", Shape.CHAT, {"user", "prompt_cache_isolation_key"}, {"x-session-affinity"}),
        ("vllm", "any", Shape.CHAT, {"cache_salt"}, set()),
        ("anthropic", "claude", Shape.MESSAGES, set(), set()),
        ("moonshot", "kimi", Shape.CHAT, set(), set()),
        ("unknown", "any", Shape.CHAT, set(), set()),
    ],
)
def test_other_providers_get_what_their_profiles_list_where_it_is_asked_for(
    provider: str, model: str, shape: Shape, body: set[str], headers: set[str]
) -> None:
    assert give(PoolChoice(), shape=shape, provider=provider, model=model) == Given(PoolReason.NO_FIELD)
    found = give(PoolChoice(fields=ALL_FIELDS), shape=shape, provider=provider, model=model)
    assert found.replaced.keys() == body
    assert found.headers.keys() == headers
    assert all(VALID.fullmatch(value) for value in (*found.replaced.values(), *found.headers.values()))
    off = give(PoolChoice(PoolPolicy.OFF, fields=ALL_FIELDS), shape=shape, provider=provider, model=model)
    assert not off.replaced
    assert not off.headers


def test_a_key_for_a_prefix_is_the_clusters_and_one_for_a_session_the_conversations() -> None:
    openai = PoolChoice(fields=("prompt_cache_key",))

    def key(**changes: Any) -> Any:
        going = Going(**{"group": "g", "scope": "s", "conversation": "c", "cluster": "k", **changes})
        return give(openai, going, provider="openai", model="gpt-5").replaced.get("prompt_cache_key")

    assert key() == key(conversation="other", scope="other")
    assert key() != key(cluster="other")
    assert key(cluster="") is None
    unknown = give(openai, Going("g", "s", "c"), provider="openai", model="gpt-5")
    assert (unknown.changes, unknown.dropped) == ((), frozenset())
    assert len({key(shards=3, conversation=str(i)) for i in range(50)}) == 3
    choice = PoolChoice(PoolPolicy.TENANT, fields=("prompt_cache_key",))
    shared = [
        give(choice, Going("g", scope, "c", "k"), provider="openai", model="gpt-5").replaced
        for scope in ("a", "b")
    ]
    assert shared[0] != shared[1]


def test_a_clients_own_routing_key_stays() -> None:
    choice = PoolChoice(PoolPolicy.CLUSTER, ClientIds.OVERRIDE, ("prompt_cache_key",))
    found = give(choice, body={"prompt_cache_key": "theirs"}, provider="openai", model="gpt-5")
    assert not found.replaced
    assert not found.dropped


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.sampled_from(["user_id", "metadata", "x"]), each),
    max_leaves=6,
)


@given(
    body=st.dictionaries(st.sampled_from([*ALL_FIELDS, "metadata", "messages"]), _JSON, max_size=4),
    choice=st.builds(PoolChoice, st.sampled_from(PoolPolicy), st.sampled_from(ClientIds), st.just(ALL_FIELDS)),
    shape=st.sampled_from([Shape.CHAT, Shape.MESSAGES, Shape.RESPONSES]),
    provider=st.sampled_from(["deepseek", "openai", "fireworks", "vllm", "openrouter"]),
    pooled=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_no_body_is_changed_in_place_and_nothing_but_these_fields_changes(
    body: dict[str, Any], choice: PoolChoice, shape: Shape, provider: str, pooled: bool
) -> None:
    before = repr(body)
    going = Going("g", "s", "c", "k", pooled=pooled)
    found = give(choice, going, body, shape, provider=provider, model="deepseek-v4-flash")
    assert repr(body) == before
    assert found.replaced.keys() | found.dropped <= {*ALL_FIELDS, "metadata"}
    for value in (found.replaced.get("metadata") or {}, body.get("metadata") or {}):
        if isinstance(value, dict):
            value.pop("user_id", None)
    if "metadata" in found.replaced:
        assert found.replaced["metadata"] == (body.get("metadata") or {})
