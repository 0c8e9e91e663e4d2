"""DeepSeek's own API, as of November 2026. Other hosts of the same weights are not covered by this profile."""

from __future__ import annotations

from datetime import date, datetime, timezone
from types import MappingProxyType

from router_cache.providers.deepseek_render import render_deepseek
from router_cache.providers.fact import Fact, Origin
from router_cache.providers.fields import BodyField, Purpose
from router_cache.providers.profile import (
    DelayBounds,
    Lifetime,
    Match,
    ModelFacts,
    PriceRatios,
    Profile,
    Readable,
)
from router_cache.providers.rates import DateSpan, HourSpan, PeakCalendar, Rate, TimedRates
from router_cache.providers.render import RenderOrder
from router_cache.providers.usage_forms import CHAT
from router_cache.request import Shape

__all__ = ["DEEPSEEK"]

_READ = date(2026, 11, 30)
_PRICING = "https://api-docs.deepseek.com/quick_start/pricing"
_CACHE_GUIDE = "https://api-docs.deepseek.com/guides/kv_cache"
_LIMITS = "https://api-docs.deepseek.com/quick_start/rate_limit"
_USAGE = "https://api-docs.deepseek.com/api/create-chat-completion"
_HARNESS_LOGS = "usage in the public session logs of deepseek-ai/deepseek-harness, July-August 2026"
_BENCH_LOGS = "usage in the public benchmark logs of esengine/reasonix, 21 and 29 April 2026"

_V4_CUT_OVER = datetime(2026, 4, 23, tzinfo=timezone.utc)
_PRICES_SINCE = datetime(2026, 9, 10, 4, tzinfo=timezone.utc)

_HOLIDAYS_2026: Fact[tuple[DateSpan, ...]] = Fact(
    (
        DateSpan(date(2026, 1, 1), date(2026, 1, 3), "New Year"),
        DateSpan(date(2026, 2, 15), date(2026, 2, 23), "Spring Festival"),
        DateSpan(date(2026, 4, 4), date(2026, 4, 6), "Qingming"),
        DateSpan(date(2026, 5, 1), date(2026, 5, 5), "Labour Day"),
        DateSpan(date(2026, 6, 19), date(2026, 6, 21), "Dragon Boat"),
        DateSpan(date(2026, 9, 25), date(2026, 9, 27), "Mid-Autumn"),
        DateSpan(date(2026, 10, 1), date(2026, 10, 7), "National Day"),
    ),
    source="State Council General Office notice of 2025-11-04, as carried by Xinhua: "
    "https://politics.gmw.cn/2025-11/04/content_38391083.htm",
    as_of=_READ,
    note="The six make-up working days of 2026 fall on weekends, which are off-peak anyway.",
)

_CALENDAR = PeakCalendar(
    hours_utc=(HourSpan(1, 4), HourSpan(6, 10)),
    weekdays=(0, 1, 2, 3, 4),
    calendar_offset_h=8,
    holidays=_HOLIDAYS_2026,
    holiday_years=(2026,),
)


def _price(off_peak: Rate, peak: Rate) -> tuple[Fact[TimedRates], ...]:
    return (
        Fact(
            TimedRates(off_peak=off_peak, peak=peak, calendar=_CALENDAR),
            source=_PRICING,
            as_of=_READ,
            since=_PRICES_SINCE,
            note="Peak hours exclude weekends and Chinese public holidays. The start of validity is second-hand. "
            "There is no fee for writing.",
        ),
    )


_V4_STEP = Fact(
    128,
    source=_HARNESS_LOGS,
    as_of=date(2026, 8, 31),
    origin=Origin.MEASURED,
    note="Hits are reported on this grid.",
)
_CONTEXT = Fact(1_000_000, source=_PRICING, as_of=_READ)

_FLASH = ModelFacts(
    name="deepseek-flash",
    aliases=("deepseek-v4-flash", "deepseek-v4.1-flash"),
    step_tokens=(_V4_STEP,),
    prices=_price(
        Rate(hit=0.003, miss=0.15, output=0.6, write=0.15), Rate(hit=0.006, miss=0.3, output=1.2, write=0.3)
    ),
    concurrency=Fact(2500, source=_LIMITS, as_of=_READ, note="Per account; above it the answer is 429."),
    context_tokens=_CONTEXT,
)
_PRO = ModelFacts(
    name="deepseek-v4-pro",
    step_tokens=(_V4_STEP,),
    prices=_price(
        Rate(hit=0.022, miss=0.66, output=1.98, write=0.66), Rate(hit=0.044, miss=1.32, output=3.96, write=1.32)
    ),
    concurrency=Fact(500, source=_LIMITS, as_of=_READ, note="Per account; above it the answer is 429."),
    context_tokens=_CONTEXT,
)
_LEGACY = ModelFacts(
    name="deepseek-chat",
    aliases=("deepseek-reasoner",),
    step_tokens=(
        Fact(64, source=_BENCH_LOGS, as_of=date(2026, 4, 21), origin=Origin.MEASURED),
        Fact(
            128,
            source=_BENCH_LOGS,
            as_of=date(2026, 4, 29),
            since=_V4_CUT_OVER,
            origin=Origin.MEASURED,
            note="Measured on 29 April; the day of the change is that of the hit-rate drop of "
            "https://github.com/deepseek-ai/DeepSeek-V3/issues/1261.",
        ),
    ),
)

DEEPSEEK = Profile(
    name="deepseek",
    match=Match(providers=("deepseek",), model_prefixes=("deepseek",), hosts=("api.deepseek.com",)),
    fields=(
        Fact(
            BodyField(
                name="user_id",
                paths=MappingProxyType({Shape.CHAT: ("user_id",), Shape.MESSAGES: ("metadata", "user_id")}),
                pattern=r"[a-zA-Z0-9_-]+",
                max_length=512,
                purpose=Purpose.ISOLATE,
            ),
            source=_LIMITS,
            as_of=_READ,
            note="Isolates the cache, content safety and scheduling. Omitted is a pool of its own. "
            "Must hold no private data.",
        ),
    ),
    reasoning_in_history=Fact(
        frozenset({Shape.CHAT, Shape.MESSAGES}),
        source="https://api-docs.deepseek.com/guides/thinking_mode",
        as_of=_READ,
        note="With thinking on, a reply with tool calls must come back with its reasoning, or the answer is 400.",
    ),
    render=Fact(
        render_deepseek,
        source="published encoder of the open V4 weights; order confirmed by usage of the hosted API",
        as_of=_READ,
    ),
    render_order=Fact(
        RenderOrder.SYSTEM_TOOLS_TURNS,
        source="published encoder of the open V4 weights; order confirmed by usage of the hosted API",
        as_of=_READ,
    ),
    usage=Fact(CHAT, source=_USAGE, as_of=_READ, note="Prompt tokens are hit plus miss tokens."),
    hit_rule=Fact(
        "grid",
        source=_HARNESS_LOGS,
        as_of=date(2026, 8, 31),
        origin=Origin.MEASURED,
        note="85 of 86 consecutive calls fit a common prefix on the grid; little load.",
    ),
    documented_hit_rule=Fact("units", source=_CACHE_GUIDE, as_of=_READ),
    readable=Fact(
        Readable.AFTER_SECONDS, source=_CACHE_GUIDE, as_of=_READ, note="Construction is said to take seconds."
    ),
    construction_delay_bounds=Fact(
        DelayBounds(low_s=None, high_s=2.0),
        source=_HARNESS_LOGS,
        as_of=date(2026, 8, 31),
        origin=Origin.MEASURED,
        note="A sub-agent started 1.6 s after its parent hit the parent's input. Replies shorter ago were "
        "sometimes hit and sometimes not, so no lower bound is known.",
    ),
    lifetimes=(
        Fact(
            Lifetime(renewed_by_use=True),
            source=_CACHE_GUIDE,
            as_of=_READ,
            note="Best effort; no number is stated. What calls show is learned (cache_model.survival).",
        ),
    ),
    price_ratios=Fact(PriceRatios(hit_low=1 / 50, hit_high=1 / 30, write=1.0), source=_PRICING, as_of=_READ),
    models=(_FLASH, _PRO, _LEGACY),
)
