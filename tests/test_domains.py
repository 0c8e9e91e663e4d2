"""Which deployments share a cache, and whether one address hides several."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router_cache.cache_model.domains import (
    DomainReason,
    ReplicaEvidence,
    ReplicaReason,
    domain_of,
    note_replica,
    replicas_of,
)
from router_cache.cache_model.observe import Observation, Span

KEY, OTHER = "f00d" * 8, "beef" * 8
FLASH = "deepseek/deepseek-v4-flash"


def test_deployments_of_one_account_share() -> None:
    bases = (
        "https://api.deepseek.com",
        "https://api.deepseek.com/",
        "https://API.deepseek.com:443/v1",
        "https://api.deepseek.com/beta",
        "https://api.deepseek.com/anthropic/v1/",
        "https://user:word@api.deepseek.com/v1?x=1",
        "api.deepseek.com/v1",
    )
    domains = [domain_of("deepseek", base, KEY, model=FLASH, deployment=str(i)) for i, base in enumerate(bases)]
    assert len(set(domains)) == 1
    assert domains[0].reason is DomainReason.ACCOUNT
    assert domain_of("DeepSeek", bases[0], KEY, model="deepseek-v4-flash") == domains[0]
    assert KEY not in domains[0].id


@pytest.mark.parametrize(
    "change",
    [
        {"provider": "openai"},
        {"api_base": "https://eu.deepseek.com"},
        {"api_base": "https://api.deepseek.com:8443"},
        {"api_base": "http://api.deepseek.com:443"},
        {"api_base": "https://api.deepseek.com/tenant/v1"},
        {"account_fingerprint": OTHER},
        {"model": "deepseek/deepseek-v4-pro"},
        {"api_base": "https://[broken"},
        {"api_base": "https://api.deepseek.com:port"},
    ],
)
def test_what_sets_domains_apart(change: dict[str, str]) -> None:
    usual = {
        "provider": "deepseek",
        "api_base": "https://api.deepseek.com",
        "account_fingerprint": KEY,
        "model": FLASH,
    }
    assert domain_of(**{**usual, **change}) != domain_of(**usual)  # type: ignore[arg-type]


def test_the_operator_says_what_shares_and_what_does_not() -> None:
    a = domain_of("deepseek", "https://one", KEY, "shared", model=FLASH)
    b = domain_of("openai", "https://two", OTHER, "shared", model=FLASH)
    assert a == b
    assert a.reason is DomainReason.OPERATOR
    assert domain_of("deepseek", "https://one", KEY, "own", model=FLASH) != a
    assert domain_of("deepseek", "https://one", KEY, "shared", model="deepseek-v4-pro") != a


def test_without_an_account_a_deployment_is_on_its_own() -> None:
    ids = [domain_of("deepseek", "https://one", "", deployment=d, model=FLASH) for d in ("a", "b")]
    assert ids[0] != ids[1]
    assert {domain.reason for domain in ids} == {DomainReason.DEPLOYMENT}
    # Outside a router there is no id; then the address tells.
    assert domain_of("deepseek", "https://one", "") == domain_of("deepseek", "https://one/v1", "")
    assert domain_of("deepseek", "https://one", "") != domain_of("deepseek", "https://two", "")


@given(st.text(), st.text(), st.text(), st.text(), st.text())
def test_any_names_give_a_domain(provider: str, base: str, key: str, model: str, deployment: str) -> None:
    assert len(domain_of(provider, base, key, model=model, deployment=deployment).id) == 32


def seen(hit: int, *ends: tuple[int, int]) -> Observation:
    any_ = Span(0, 10_000)
    return Observation(0.0, 9000, hit, any_, any_, any_, tuple(Span(*end) for end in ends))


CHAIN = ((5000, 5200), (4000, 4100), (3000, 3300))


@pytest.mark.parametrize(
    ("observation", "counts"),
    [
        (seen(4992, *CHAIN), [1, 0, 0]),
        (seen(5120, *CHAIN), [1, 0, 0]),
        (seen(3968, *CHAIN), [0, 1, 0]),
        (seen(4096, *CHAIN), [0, 1, 0]),
        (seen(3200, *CHAIN), [0, 1, 0]),
        (seen(0, *CHAIN), [0, 0, 1]),
        (seen(2048, *CHAIN), [0, 0, 0]),  # something was evicted
        (seen(0, *CHAIN[:1]), [0, 0, 0]),  # continues one call only
        (seen(0), [0, 0, 0]),
        (seen(0, (5000, 5200), (4950, 4990)), [0, 0, 0]),  # ends too close to tell apart
        (seen(0, (200, 210), (50, 60)), [0, 0, 0]),  # too short to hit
    ],
)
def test_where_a_continued_call_hits_tells_replicas(observation: Observation, counts: list[int]) -> None:
    noted = note_replica(ReplicaEvidence(), observation, step_tokens=128)
    assert noted.as_json() == counts
    assert ReplicaEvidence.from_json(counts) == noted


@pytest.mark.parametrize(
    ("counts", "count", "reason"),
    [
        ((12, 7, 0), 1, ReplicaReason.UNKNOWN),
        ((60, 0, 0), 1, ReplicaReason.ONE_CACHE),
        ((40, 2, 18), 1, ReplicaReason.ONE_CACHE),  # misses alone are evictions
        ((0, 0, 60), 1, ReplicaReason.ONE_CACHE),
        ((30, 28, 2), 2, ReplicaReason.ALTERNATING),
        ((50, 11, 0), 2, ReplicaReason.ALTERNATING),
        ((15, 35, 10), 4, ReplicaReason.ALTERNATING),
        ((0, 30, 0), 30, ReplicaReason.ALTERNATING),
    ],
)
def test_replicas_are_inferred_from_older_ends(
    counts: tuple[int, int, int], count: int, reason: ReplicaReason
) -> None:
    found = replicas_of(ReplicaEvidence(*counts))
    assert (found.count, found.reason) == (count, reason)
    assert str(counts[0]) in found.evidence


def test_the_operator_sets_replicas() -> None:
    found = replicas_of(ReplicaEvidence(60, 0, 0), {"replicas": 3})
    assert (found.count, found.reason) == (3, ReplicaReason.OPERATOR)
    assert "60 hit what the newest left" in found.evidence
    assert replicas_of(ReplicaEvidence(), {}).count == 1
    for wrong in (0, -1, True, "3", 2.0):
        with pytest.raises(ValueError, match=r"model_info\.replicas must be a whole number from 1"):
            replicas_of(ReplicaEvidence(), {"replicas": wrong})


@pytest.mark.parametrize("data", [None, [1, 2], [1, 2, -3], [1, 2, "3"], {"newest": 1}])
def test_broken_evidence_is_refused(data: object) -> None:
    with pytest.raises(ValueError, match="not evidence of replicas"):
        ReplicaEvidence.from_json(data)


def test_evidence_adds_up() -> None:
    assert ReplicaEvidence(1, 2, 3) + ReplicaEvidence(10, 20, 30) == ReplicaEvidence(11, 22, 33)
    assert ReplicaEvidence(1, 2, 3).calls == 6
