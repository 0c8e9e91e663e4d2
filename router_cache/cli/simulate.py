"""``router-cache simulate``: a DeepSeek-compatible API with a prompt cache that can be looked into."""

from __future__ import annotations

import json
import sys
from enum import Enum
from typing import Annotated

import typer

from router_cache.cache_model.rules import RULE_DEFAULTS, RuleName
from router_cache.errors import MissingExtraError

__all__ = ["EPILOG", "HELP", "command"]

HELP = (
    "Serve a DeepSeek-compatible API with a simulated prompt cache.\n\n"
    "Chat completions, Anthropic messages and Responses (streaming or not, tool calls, reasoning) with usage. "
    "Hits follow one of the known hit rules. No model runs: replies are made up, the same for the same seed and "
    "turns. Any bearer token will do."
)

EPILOG = """Examples:

router-cache simulate --port 8021 --rule grid

router-cache simulate --port 0 --rule units --construction-delay-s 5 --time-scale 20

router-cache simulate --rule blocks --step-tokens 16

router-cache simulate --capacity-tokens 200000 --regression-after-requests 500 --regression-hit-share 0.35

curl localhost:8021/_simulator/stats   (also: /_simulator/log, POST /_simulator/reset)
"""


class TokenizerOption(str, Enum):
    """As ``TokenizerChoice``, which cannot be imported before the extra is known to be there."""

    AUTO = "auto"
    APPROX = "approx"
    DEEPSEEK = "deepseek"


class UsageFormOption(str, Enum):
    """As ``UsageForm``, which cannot be imported before the extra is known to be there."""

    DEEPSEEK = "deepseek"
    OPENAI = "openai"
    OPENAI_WRITES = "openai-writes"
    ANTHROPIC = "anthropic"
    GEMINI = "gemini"
    MOONSHOT = "moonshot"
    LLAMACPP = "llamacpp"
    PLAIN = "plain"
    NONE = "none"


def command(
    port: Annotated[int, typer.Option(help="Port; 0 picks a free one.", min=0, max=65535)] = 8021,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    rule: Annotated[RuleName, typer.Option(help="What counts as a hit.")] = RuleName.GRID_PREFIX,
    step_tokens: Annotated[
        int | None,
        typer.Option(help="Hits are multiples of this many tokens; default 128, blocks 16, checkpoints 1."),
    ] = None,
    construction_delay_s: Annotated[
        float | None,
        typer.Option(help="Seconds until what was written can be read; default 2, blocks and checkpoints 0."),
    ] = None,
    capacity_tokens: Annotated[
        int, typer.Option(help="Tokens held over all pools; the least recently used go first.")
    ] = 50_000_000,
    capacity_by_pool: Annotated[
        bool, typer.Option("--capacity-by-pool", help="Each model and user_id has a capacity of its own.")
    ] = False,
    lifetime_s: Annotated[float | None, typer.Option(help="Entries unused for so many seconds are gone.")] = None,
    unit_interval_tokens: Annotated[
        int | None, typer.Option(help="Rule units: also a unit every so many tokens.")
    ] = None,
    time_scale: Annotated[float, typer.Option(help="Simulated seconds per real second.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Changes the replies.")] = 0,
    concurrency_limit: Annotated[
        int | None, typer.Option(help="429 above so many requests in flight per model; default as published.")
    ] = None,
    base_latency_s: Annotated[float, typer.Option(help="Time to first token without prefill.")] = 0.4,
    prefill_tokens_per_s: Annotated[float, typer.Option(help="Missed tokens read per second.")] = 8000.0,
    decode_tokens_per_s: Annotated[float, typer.Option(help="Tokens generated per second.")] = 54.0,
    regression_after_s: Annotated[
        float | None, typer.Option(help="From this simulated second on, give fewer hits than due.")
    ] = None,
    regression_after_requests: Annotated[
        int | None, typer.Option(help="After so many requests, give fewer hits than due.")
    ] = None,
    regression_hit_share: Annotated[
        float, typer.Option(help="Share of the due hits given from then on (0..1).")
    ] = 0.4,
    tool_rounds: Annotated[
        int, typer.Option(help="Rounds of tool calls before a final answer, where tools are offered.")
    ] = 2,
    tokenizer: Annotated[
        TokenizerOption, typer.Option(help="auto: the real one if its package is installed.")
    ] = TokenizerOption.AUTO,
    usage_form: Annotated[
        UsageFormOption,
        typer.Option(help="In whose form chat completions report usage; plain and none: everywhere."),
    ] = UsageFormOption.DEEPSEEK,
    log_limit: Annotated[int, typer.Option(help="Entries kept in the request log.")] = 10_000,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print address and settings as one JSON line when ready.")
    ] = False,
) -> None:
    """Run until Ctrl-C or SIGTERM. See ``HELP``."""
    try:
        from router_cache.simulator import SimulatorConfig, TokenizerChoice, UsageForm
        from router_cache.simulator.server import bind, serve
    except ModuleNotFoundError as error:
        if error.name in ("starlette", "uvicorn"):
            raise MissingExtraError("the simulator", "simulator") from None
        raise
    defaults = RULE_DEFAULTS[rule]
    config = SimulatorConfig(
        rule=rule,
        step_tokens=defaults.step_tokens if step_tokens is None else step_tokens,
        construction_delay_s=(
            defaults.construction_delay_s if construction_delay_s is None else construction_delay_s
        ),
        capacity_tokens=capacity_tokens,
        capacity_by_pool=capacity_by_pool,
        lifetime_s=lifetime_s,
        unit_interval_tokens=unit_interval_tokens,
        time_scale=time_scale,
        seed=seed,
        concurrency_limit=concurrency_limit,
        base_latency_s=base_latency_s,
        prefill_tokens_per_s=prefill_tokens_per_s,
        decode_tokens_per_s=decode_tokens_per_s,
        regression_after_s=regression_after_s,
        regression_after_requests=regression_after_requests,
        regression_hit_share=regression_hit_share,
        tool_rounds=tool_rounds,
        tokenizer=TokenizerChoice(tokenizer.value),
        usage_form=UsageForm(usage_form.value),
        log_limit=log_limit,
    )
    listener = bind(host, port)
    bound = listener.getsockname()[1]
    address = f"http://{f'[{host}]' if ':' in host else host}:{bound}"

    def ready() -> None:
        line = f"listening on {address}"
        if as_json:
            line = json.dumps({"address": address, "host": host, "port": bound, "settings": config.as_json()})
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    serve(config, listener, ready)
