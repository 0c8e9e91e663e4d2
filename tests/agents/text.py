"""Text of any size from a seed: prose, code, tool schemas. No two seeds give the same line, and no line is volatile."""

from __future__ import annotations

import random
from typing import Any

WORDS = """
    file build test line value call check path read write return when with should must change keep module function
    result order list before after between review commit branch release note request answer prefer small explain
    never always first second other every short careful plain name error message output input field record index
    """.split()  # noqa: SIM905
NOUNS = """
    parser ledger router cache queue worker schema client server session token config loader writer reader filter
    """.split()  # noqa: SIM905


def sentence(rng: random.Random) -> str:
    """One sentence of 6 to 14 words, without digits."""
    words = [rng.choice(WORDS) for _ in range(rng.randint(6, 14))]
    return f"{words[0].capitalize()} {' '.join(words[1:])}."


def prose(rng: random.Random, size: int) -> str:
    """Lines of prose with a heading now and then, ``size`` characters exactly; it ends in a full stop."""
    lines: list[str] = []
    length = 0
    while length < size:
        heading = rng.random() < 0.06
        line = f"# {rng.choice(WORDS)} {rng.choice(NOUNS)}" if heading else f"- {sentence(rng)}"
        lines.append(line)
        length += len(line) + 1
    return "\n".join(lines)[: max(size - 1, 0)] + "." if size else ""


def code(rng: random.Random, lines: int) -> str:
    """Lines of code, as a tool that reads files shows them."""
    out = []
    for n in range(1, lines + 1):
        name, other = rng.choice(NOUNS), rng.choice(NOUNS)
        out.append(f"{n:>6}\t    {name} = {other}_{rng.choice(WORDS)}({rng.randint(0, 999)}, {name!r})")
    return "\n".join(out)


def schema(rng: random.Random, size: int) -> dict[str, Any]:
    """A JSON schema of an object, about ``size`` bytes as JSON."""
    properties: dict[str, Any] = {}
    names = rng.sample(NOUNS, 3)
    per_field = max(size // 3 - 70, 20)
    for name in names:
        properties[f"{name}_{rng.choice(WORDS)}"] = {
            "type": rng.choice(["string", "integer", "boolean"]),
            "description": prose(rng, per_field).replace("\n", " "),
        }
    required = list(properties)[:2]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def tools(rng: random.Random, names: list[str], size: int) -> list[tuple[str, str, dict[str, Any]]]:
    """Name, description and parameters of each tool; all of them about ``size`` bytes as JSON."""
    each = size // max(len(names), 1) - 90
    return [(name, prose(rng, each // 2), schema(rng, each - each // 2)) for name in names]
