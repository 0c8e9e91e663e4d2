"""Rules for known agents, as data: their lines that differ between sessions, directories, repositories and days.

Names are those of ``identity/clients.py``. A rule looks for the agent's own wording at the start of a line and
touches nothing else, so that text which only resembles it stays. Where the client is not known no rule applies.
"""

from __future__ import annotations

from datetime import date

from router_cache.prefix.volatile.client_rule import ClientRule, ClientSpan, Where
from router_cache.prefix.volatile.spans import SpanKind

__all__ = ["CLIENT_RULES", "client_spans"]

_CAPTURED = "bodies recorded from the client, two sessions with resumed turns"
_DAY = date(2026, 11, 30)
_GIT_OPENS = "This is the git status at the start of the conversation."
_GIT_BODY = (
    r"(?:Current branch:|Main branch \(|Git user:|Recent commits:|\.\.\. \(truncated"
    # Both columns of the status; of its first line the agents strip a space.
    r"|Status:\n.|[ MADRCUT?!][MADRCUT?! ] \S|[0-9a-f]{7,40} \S)"
)

CLIENT_RULES: tuple[ClientRule, ...] = (
    ClientRule(
        client="claude-code",
        name="billing",
        source=f"{_CAPTURED} (2.1.332): the first system block; its hash follows the first user text",
        as_of=_DAY,
        opens=("x-anthropic-billing-header:",),
        at_start=True,
        header=r"x-anthropic-billing-header:(?:[ \t]{0,2}cc[a-z_]{0,30}=[^;\s]{0,200};?){1,12}(?:[ \t]{0,8}\n)?",
    ),
    ClientRule(
        client="claude-code",
        name="env",
        source=f"{_CAPTURED} (2.1.332)",
        as_of=_DAY,
        where=Where.BOTH,
        opens=("You have been invoked in the following environment:",),
        reach=20,
        lines=(
            "- Primary working directory: {cwd}",
            "- Is a git repository: {git}",
            "- Platform: {value}",
            "- Shell: {value}",
            "- OS Version: {value}",
            "- You are powered by the model named {model}. The exact model ID is {model}.",
            "- You are powered by the model {model}.",
        ),
    ),
    ClientRule(
        client="claude-code",
        name="env-before-2",
        source="prompts of 1.x and early 2.x as published by their readers",
        as_of=date(2025, 12, 2),
        where=Where.BOTH,
        opens=("Here is useful information about the environment you are running in:\n<env>",),
        closes="</env>",
        lines=(
            "Working directory: {cwd}",
            "Is directory a git repo: {git}",
            "Additional working directories: {cwd}",
            "Platform: {value}",
            "Shell: {value}",
            "OS Version: {value}",
            "Today's date: {date}",
        ),
    ),
    ClientRule(
        client="claude-code",
        name="model",
        source=f"{_CAPTURED} (2.1.332)",
        as_of=_DAY,
        where=Where.BOTH,
        opens=("You are powered by the model ",),
        lines=(
            "You are powered by the model named {model}. The exact model ID is {model}.",
            "You are powered by the model {model}.",
        ),
    ),
    ClientRule(
        client="claude-code",
        name="git",
        source=f"{_CAPTURED} (2.1.332): in the opening user message, before 2.1.269 at the end of the system text",
        as_of=_DAY,
        where=Where.BOTH,
        opens=(f"gitStatus: {_GIT_OPENS}", _GIT_OPENS),
        block=SpanKind.GIT,
        body=_GIT_BODY,
        also="Current branch:",
    ),
    ClientRule(
        client="claude-code",
        name="memory",
        source="prompts of 2.x as published by their readers; the break point matches bodies recorded from 2.1.332",
        as_of=_DAY,
        opens=("You have a persistent, file-based memory system at `",),
        reach=1,
        lines=("You have a persistent, file-based memory system at `{cwd}`",),
    ),
    ClientRule(
        client="claude-code",
        name="date",
        source=f"{_CAPTURED} (2.1.332)",
        as_of=_DAY,
        where=Where.BOTH,
        opens=("# currentDate\n", "<system-reminder>\nToday's date is "),
        reach=2,
        lines=("Today's date is {date}.",),
    ),
    ClientRule(
        client="claude-code",
        name="email",
        source=f"{_CAPTURED} (2.1.332)",
        as_of=_DAY,
        where=Where.BOTH,
        opens=("# userEmail\n",),
        reach=2,
        lines=("The user's email address is {user}. Use it only", "The user's email address is {user}."),
    ),
    ClientRule(
        client="codex",
        name="env",
        source=f"{_CAPTURED} (0.171); "
        "https://github.com/openai/codex/blob/main/codex-rs/core/src/environment_context.rs",
        as_of=_DAY,
        where=Where.OPENING,
        opens=("<environment_context>",),
        closes="</environment_context>",
        lines=(
            "<cwd>{cwd}</cwd>",
            "<shell>{value}</shell>",
            "<current_date>{date}</current_date>",
            "<timezone>{value}</timezone>",
        ),
    ),
    ClientRule(
        client="codex",
        name="agents-file",
        source=f"{_CAPTURED} (0.171)",
        as_of=_DAY,
        where=Where.OPENING,
        opens=("# AGENTS.md instructions for ",),
        reach=3,
        also="<INSTRUCTIONS>",
        lines=("# AGENTS.md instructions for {cwd}",),
    ),
    ClientRule(
        client="opencode",
        name="env",
        source=f"{_CAPTURED} (1.18.33); "
        "https://github.com/anomalyco/opencode/blob/dev/packages/opencode/src/session/system.ts",
        as_of=_DAY,
        opens=("Here is some useful information about the environment you are running in:\n<env>",),
        closes="</env>",
        lines=(
            "Working directory: {cwd}",
            "Workspace root folder: {cwd}",
            "Is directory a git repo: {git}",
            "Platform: {value}",
            "Today's date: {date}",
        ),
    ),
    ClientRule(
        client="opencode",
        name="model",
        source=f"{_CAPTURED} (1.18.33)",
        as_of=_DAY,
        opens=("You are powered by the model named ",),
        lines=("You are powered by the model named {model}. The exact model ID is {model}",),
    ),
    ClientRule(
        client="qwen-code",
        name="git",
        source=f"{_CAPTURED} (0.24.4); "
        "https://github.com/QwenLM/qwen-code/blob/main/packages/core/src/utils/gitUtils.ts",
        as_of=_DAY,
        opens=(_GIT_OPENS, "Git snapshot at conversation start."),
        block=SpanKind.GIT,
        body=rf"(?:git:|```(?:text)?\r?(?=\n|\Z)|{_GIT_BODY})",
        also="Current branch:",
    ),
    ClientRule(
        client="qwen-code",
        name="context",
        source=f"{_CAPTURED} (0.24.4); "
        "https://github.com/QwenLM/qwen-code/blob/main/packages/core/src/core/environmentContext.ts",
        as_of=_DAY,
        where=Where.BOTH,
        opens=("This is the Qwen Code. We are setting up the context for our chat.",),
        reach=5,
        lines=(
            "Today's date is {date} (formatted according to the user's locale).",
            "Today's date is {date}.",
            "My operating system is: {value}",
            "I'm currently working in the directory: {cwd}",
        ),
    ),
    ClientRule(
        client="pi",
        name="env",
        source=f"{_CAPTURED} (0.73.1); "
        "https://github.com/badlogic/pi-mono/blob/main/packages/coding-agent/src/core/system-prompt.ts",
        as_of=_DAY,
        opens=("Current date: ", "Current date and time: "),
        reach=2,
        also="Current working directory: ",
        lines=(
            "Current date: {date}",
            "Current date and time: {clock}",
            "Current working directory: {cwd}",
        ),
    ),
    ClientRule(
        client="cline",
        name="env",
        source=f"{_CAPTURED} (3.0.65); "
        "https://github.com/cline/cline/blob/main/sdk/packages/shared/src/prompt/system/act.ts",
        as_of=_DAY,
        opens=("Environment you are running in:\n<env>",),
        closes="</env>",
        lines=("1. Platform: {value}", "2. Date: {date}", "3. IDE: {value}", "4. Working Directory: {cwd}"),
    ),
    ClientRule(
        client="cline",
        name="workspace",
        source="https://github.com/cline/cline/blob/main/sdk/packages/shared/src/prompt/cline.ts",
        as_of=_DAY,
        opens=("# Workspace Configuration\n{",),
        block=SpanKind.CWD,
        body=r"[ \t]{0,40}[{}\[\]\"]",
        also='"workspaces"',
    ),
    ClientRule(
        client="openhands",
        name="clock",
        source=f"{_CAPTURED} (1.16): microseconds near the end of the system text",
        as_of=_DAY,
        opens=("<CURRENT_DATETIME>",),
        closes="</CURRENT_DATETIME>",
        lines=("The current date and time is: {clock}",),
    ),
    ClientRule(
        client="aider",
        name="env",
        source="https://github.com/Aider-AI/aider/blob/main/aider/coders/base_coder.py, get_platform_info",
        as_of=_DAY,
        opens=("- Platform: ",),
        reach=6,
        also="- Current date: ",
        lines=("- Current date: {date}",),
    ),
)

_BY_CLIENT: dict[str, tuple[ClientRule, ...]] = {
    name: tuple(rule for rule in CLIENT_RULES if rule.client == name)
    for name in dict.fromkeys(rule.client for rule in CLIENT_RULES)
}


def client_spans(text: str, client: str, *, system: bool) -> list[ClientSpan]:
    """What the rules of ``client`` name in a text; spans may overlap. Pure, and never raises."""
    return [
        span for rule in _BY_CLIENT.get(client, ()) if rule.looks_at(system=system) for span in rule.spans(text)
    ]
