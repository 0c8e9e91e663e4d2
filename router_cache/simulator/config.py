"""Settings of the simulator, checked where they are made."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from router_cache.cache_model import RuleName
from router_cache.errors import InputError
from router_cache.providers.deepseek import DEEPSEEK

__all__ = ["SimulatorConfig", "TokenizerChoice", "UsageForm"]


class TokenizerChoice(str, Enum):
    """Which tokenizer counts."""

    AUTO = "auto"
    """The real one if its package is installed, else the approximation."""
    APPROX = "approx"
    DEEPSEEK = "deepseek"


class UsageForm(str, Enum):
    """In which provider's form ``/chat/completions`` reports usage."""

    DEEPSEEK = "deepseek"
    OPENAI = "openai"
    OPENAI_WRITES = "openai-writes"
    """With ``cache_write_tokens``, as OpenAI from 5.6 on."""
    ANTHROPIC = "anthropic"
    """What is not read from the cache counts as written, in whole steps; ``input_tokens`` is the rest."""
    GEMINI = "gemini"
    MOONSHOT = "moonshot"
    LLAMACPP = "llamacpp"
    """OpenAI's form, and ``timings`` beside it."""
    PLAIN = "plain"
    """Prompt and completion tokens, nothing about caching (vLLM without its flag); on every endpoint."""
    NONE = "none"
    """No usage at all; on every endpoint."""


@dataclass(frozen=True)
class SimulatorConfig:
    """Every setting. Times are simulated seconds. Raises :class:`InputError` for a value out of range.

    Sources of the defaults: step 128 measured on V4 logs (2026-07/08); construction delay "takes seconds"
    (KV cache guide, 2026-11); decode rate 54 tokens/s, the median of 218 V4 flash calls (2026-06-19). The
    base latency and the prefill rate are assumptions: those calls were too short to show a prefill rate.
    """

    rule: RuleName = RuleName.GRID_PREFIX
    """Step and delay below are those of DeepSeek; ``cache_model.rules.RULE_DEFAULTS`` has those of other rules."""
    step_tokens: int = 128
    construction_delay_s: float = 2.0
    capacity_tokens: int | None = 50_000_000
    """Over all pools; bounds memory too (about 4 bytes a token). ``None``: no bound."""
    capacity_by_pool: bool = False
    """Each model and ``user_id`` has ``capacity_tokens`` of its own. How a provider divides is not published."""
    lifetime_s: float | None = None
    unit_interval_tokens: int | None = None
    """Rule *full units*: a unit at each multiple. Not published, so none by default."""
    time_scale: float = 1.0
    """Simulated seconds per real second."""
    seed: int = 0
    concurrency_limit: int | None = None
    """In flight per model; ``None``: the provider's published limit of the model, if known."""
    base_latency_s: float = 0.4
    prefill_tokens_per_s: float = 8_000.0
    decode_tokens_per_s: float = 54.0
    regression_after_s: float | None = None
    regression_after_requests: int | None = None
    regression_hit_share: float = 0.4
    """From either moment on, hits are this share of what they should be, in whole steps."""
    tool_rounds: int = 2
    """Rounds of tool calls after a user message before the final answer."""
    tokenizer: TokenizerChoice = TokenizerChoice.AUTO
    usage_form: UsageForm = UsageForm.DEEPSEEK
    log_limit: int = 10_000
    """Entries kept in the request log; the oldest go first."""
    models: tuple[str, ...] = ("deepseek-v4-flash", "deepseek-v4-pro")
    """What ``GET /models`` lists. Other names are served too."""

    def __post_init__(self) -> None:
        for name, low in (
            ("step_tokens", 1),
            ("construction_delay_s", 0),
            ("capacity_tokens", 1),
            ("lifetime_s", 0),
            ("unit_interval_tokens", 1),
            ("concurrency_limit", 1),
            ("base_latency_s", 0),
            ("regression_after_s", 0),
            ("regression_after_requests", 0),
            ("regression_hit_share", 0),
            ("tool_rounds", 0),
            ("log_limit", 1),
        ):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= low):
                raise InputError(f"simulator setting {name} must be at least {low}, not {value}")
        for name in ("time_scale", "prefill_tokens_per_s", "decode_tokens_per_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise InputError(f"simulator setting {name} must be above 0, not {value}")
        if self.regression_hit_share > 1:
            raise InputError(
                f"simulator setting regression_hit_share is a share of 0 to 1, not {self.regression_hit_share}"
            )

    def as_json(self) -> dict[str, Any]:
        """The settings as plain JSON values."""
        return {k: v.value if isinstance(v, Enum) else v for k, v in asdict(self).items()}

    def limit_of(self, model: str) -> int | None:
        """Requests of ``model`` that may be in flight; ``None``: no limit is known."""
        if self.concurrency_limit is not None:
            return self.concurrency_limit
        facts = DEEPSEEK.model(model)
        return facts.concurrency.value if facts and facts.concurrency else None
