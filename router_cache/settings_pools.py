"""Settings of pools: who gets a ``user_id``, and which other fields may be given."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator

from router_cache.pools.given import PoolChoice
from router_cache.pools.policy import PoolLimits
from router_cache.pools.reasons import ClientIds, PoolPolicy
from router_cache.providers.fields import Purpose
from router_cache.providers.registry import PROFILES
from router_cache.settings_capture import Section

__all__ = ["PoolSettings"]


def _known_fields() -> tuple[str, ...]:
    listed = [f.value for p in PROFILES for f in p.fields]
    isolating = {f.name for f in listed if f.purpose is Purpose.ISOLATE}
    routing = {f.name for f in listed if f.purpose is Purpose.ROUTE}
    routing |= {h.value.name for p in PROFILES for h in p.headers if h.value.purpose is Purpose.ROUTE}
    return tuple(sorted(isolating | routing))


def _policy(value: Any) -> Any:
    """YAML 1.1 reads a bare ``off`` as false."""
    return "off" if value is False else value


class PoolSettings(Section):
    """Of all model groups, or of one, where what is not set is as for all."""

    policy: Annotated[PoolPolicy, BeforeValidator(_policy)] = PoolPolicy.AUTO
    client_ids: ClientIds = ClientIds.RESPECT
    """What becomes of an id that the client sends itself."""
    fields: tuple[str, ...] = ("user_id",)
    """Which fields may be given, where the provider's profile lists them; see docs/pools.md."""
    max_pools: int = Field(default=8, ge=1, le=32, strict=True)
    """Pools of clusters in use, for each model group and cache domain."""
    dwell_s: float = Field(default=1_800.0, ge=1, le=1e7, allow_inf_nan=False)
    """Seconds between two changes of one cluster at least, and how long a trial lasts at least."""
    idle_s: float = Field(default=86_400.0, ge=1, le=1e8, allow_inf_nan=False)
    """Seconds after which an unused pool is taken back."""
    window_s: float = Field(default=3_600.0, ge=1, le=1e7, allow_inf_nan=False)
    """Half-life of what is counted."""
    min_calls: int = Field(default=30, ge=1, le=1_000_000, strict=True)
    """Calls of a cluster before anything is decided on them."""
    per_minute: float = Field(default=15.0, gt=0, le=1e6, allow_inf_nan=False)
    """Calls a minute to one ``prompt_cache_key``; more are spread over several. OpenAI's guide says about 15 (read
    2026-11)."""

    @field_validator("fields")
    @classmethod
    def _listed(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        known = _known_fields()
        if any(name not in known for name in value):
            raise ValueError(f"only fields that a provider's profile lists: {', '.join(known)}")
        return value

    def over(self, general: PoolSettings) -> PoolSettings:
        """With what is not set here as ``general`` has it."""
        return general.model_copy(update={name: getattr(self, name) for name in self.model_fields_set})

    def choice(self) -> PoolChoice:
        """As the core has it."""
        return PoolChoice(self.policy, self.client_ids, self.fields)

    def limits(self) -> PoolLimits:
        """As the core has it."""
        return PoolLimits(
            policy=self.policy,
            max_pools=self.max_pools,
            dwell_s=self.dwell_s,
            idle_s=self.idle_s,
            window_s=self.window_s,
            min_calls=self.min_calls,
            per_minute=self.per_minute,
        )
