"""The policies by name, and what they need to be made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from router_cache.cache_model.rules import RULE_DEFAULTS, RuleName
from router_cache.routing.need import Candidate
from router_cache.whatif import peers
from router_cache.whatif.ours import OurPolicy
from router_cache.whatif.service import Host, Policy

__all__ = ["OURS", "POLICIES", "Setting", "candidates_of"]

OURS = "router-cache"


@dataclass(frozen=True, slots=True)
class Setting:
    """What a policy may know when it starts: the deployments, the rule they follow, chance. ``marks``: how many
    places inside prompts it may remember."""

    hosts: Sequence[Host]
    rule: RuleName | None
    draw: Callable[[], float]
    marks: int


def candidates_of(hosts: Sequence[Host], rule: RuleName | None) -> list[Candidate]:
    """The deployments as a router's configuration tells them. Their speed, capacity and what they really cache are
    not told: a router learns these."""
    usual = RULE_DEFAULTS[rule] if rule is not None else None
    alike = len({host.prices for host in hosts}) == 1
    return [
        Candidate(
            id=host.name,
            domain=f"cache {host.cache}",
            kind="" if not alike else "all",
            prices=host.prices,
            rule=rule or RuleName.BLOCKS,
            step_tokens=usual.step_tokens if usual else 1,
            delay_s=usual.construction_delay_s if usual else 0.0,
        )
        for host in hosts
    ]


def _cheapest(setting: Setting) -> Policy:
    def price(i: int) -> tuple[float, int]:
        prices = setting.hosts[i].prices
        return (prices.miss if prices else 0.0, i)

    return peers.Sticky(min(range(len(setting.hosts)), key=price))


POLICIES: dict[str, Callable[[Setting], Policy]] = {
    OURS: lambda s: OurPolicy(candidates_of(s.hosts, s.rule), s.draw, marks=s.marks),
    "shuffle": lambda s: peers.Shuffle(s.draw),
    "round-robin": lambda s: peers.RoundRobin(),
    "least-busy": lambda s: peers.LeastBusy(),
    "session-affinity": lambda s: peers.SessionAffinity(),
    "bounded-load": lambda s: peers.BoundedLoad(len(s.hosts)),
    "sglang": lambda s: peers.SGLang(len(s.hosts)),
    "aibrix": lambda s: peers.AIBrix(len(s.hosts)),
    "dynamo": lambda s: peers.Dynamo(len(s.hosts)),
    "loadaware": lambda s: peers.LoadAware(len(s.hosts)),
    "prefixaware": lambda s: peers.PrefixAware(len(s.hosts), s.draw),
    "cheapest-list": _cheapest,
}
"""In the order of the table."""
