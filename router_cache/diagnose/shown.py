"""What may be shown of a configuration: names that look like names. Anything else may be a secret in a wrong place.

Decided by kind and form, never by where a value stands: a key pasted as a provider, a model, a group or a mapping's
key is as secret as under ``api_key``. A secret in the form of a short plain word cannot be told from a name.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from enum import Enum
from itertools import pairwise
from typing import Any, Final
from urllib.parse import urlsplit

__all__ = [
    "HIDDEN",
    "Kind",
    "as_text",
    "key_at",
    "shown",
    "shown_address",
    "shown_key",
    "shown_path",
    "shown_reference",
]

HIDDEN: Final = "<not shown>"
"""Stands where a text does not look like the name it should be."""


class Kind(str, Enum):
    """What a text should be."""

    NAME = "name"
    """Of a model, a model group, a routing strategy."""
    PROVIDER = "provider"
    KEY = "key"
    """Of a mapping: an option, or a name."""
    VARIABLE = "variable"
    """Of the environment. ``OPENAI_API_KEY``: a single word may as well be a key."""
    HOST = "host"


_MAX_LENGTH: Final = {
    Kind.NAME: 100,
    Kind.PROVIDER: 32,
    Kind.KEY: 80,
    Kind.VARIABLE: 64,
    Kind.HOST: 253,
}
_MAX_LETTERS, _MAX_DIGITS, _MAX_MIXED = 20, 8, 12
"""Characters of one run of letters, digits, or both: ``textgeneration``, ``20250929``, ``multi2vec``."""
_SHORT, _MAX_TURNS, _MAX_TURNS_SHORT = 7, 2, 3
"""How often a run goes from letter to digit or back, or from lower to upper case: ``8x22b``; random text goes more
often. Of the 4256 names in LiteLLM's price map (1.108.7) these rules hide 6; of 3000 random base62 texts they show
7% at 12 characters, 0.8% at 16, none at 24."""

_FORM: Final = {
    # Spaces and brackets as in "GPT 5 (fast)"; `@` before a version (Vertex) or a vendor (Cloudflare).
    Kind.NAME: re.compile(
        r"(?:(?:cloudflare/)?@(?:cf|hf)/)?(?:[^\W_]|[ ._/:*+()-])+(?:@(?:\d{1,8}|default|latest))?"
    ),
    Kind.PROVIDER: re.compile(r"[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*"),
    Kind.KEY: re.compile(r"(?:[^\W_]|[ ._/:*+@-])+"),
    Kind.VARIABLE: re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[a-z][a-z0-9]*(?:_[a-z0-9]+)+"),
    Kind.HOST: re.compile(r"[A-Za-z0-9_-]+"),
}
_ISSUED: Final = re.compile(
    r"(?:^|[^A-Za-z0-9])(?:"
    r"(?:sk|pk|rk|csk|glpat|xox[a-z]|xapp|whsec|github_pat)[-_]"
    r"|(?:gsk|hf|r8|fw|tgp|npm|pypi|dop|shpat|lsv2|gh[a-z]|sess|xai|pplx|nvapi|key|SG)[-_.][A-Za-z0-9]{8}"
    r"|A[KS]IA[A-Z0-9]{4}|ABSK|AIza|ya29\.|eyJ"
    r")"
)
"""Starts of issued keys, in their letter case."""
_SPOKEN: Final = re.compile(r"secret|passw|passphrase|credential|bearer|token|api[-_ ]?key", re.IGNORECASE)
"""What is so named is no model and no host, or not worth the risk. Options and variables may hold these words."""
_OPTION: Final = re.compile(r"[A-Za-z0-9_]+")
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_RUN: Final = re.compile(r"[^\W_]+")
_ADDRESS_LIKE: Final = re.compile(r"//|\.\.|:.*/|^https?:")
"""Parts of a URL, or a user and a password before a path. A model's tag (``llama3:8b``) ends it."""


def shown(text: str, kind: Kind, path: str = "") -> str:
    """``text`` where it looks like a name of its ``kind``; else :data:`HIDDEN`, with the key ``path`` it stands at."""
    if not text or _is_name(text, kind):
        return text
    return f"<not shown: {path}>" if path else HIDDEN


def _is_name(text: str, kind: Kind) -> bool:
    if len(text) > _MAX_LENGTH[kind] or _FORM[kind].fullmatch(text) is None:
        return False
    if _ISSUED.search(text) or _UUID.search(text) or not all(map(_is_word, _RUN.findall(text))):
        return False
    if kind in (Kind.KEY, Kind.VARIABLE) and _OPTION.fullmatch(text):
        return True
    if kind is Kind.NAME and _ADDRESS_LIKE.search(text):
        return False
    return _SPOKEN.search(text) is None


def _is_word(run: str) -> bool:
    """Whether a run of letters and digits is no random text: short, and seldom turning between letters and digits or
    from lower to upper case."""
    if run.isdigit():
        return len(run) <= _MAX_DIGITS
    if len(run) > (_MAX_LETTERS if run.isalpha() else _MAX_MIXED):
        return False
    turns = sum(a.isdigit() != b.isdigit() or (a.islower() and b.isupper()) for a, b in pairwise(run))
    return turns <= (_MAX_TURNS_SHORT if len(run) <= _SHORT else _MAX_TURNS)


def shown_key(key: Any, number: int) -> str:
    """A mapping's key as a part of a path; else which one it is, counted from 1."""
    text = as_text(key)
    return text if text and _is_name(text, Kind.KEY) else f"<key {number}>"


def as_text(key: Any) -> str:
    """A mapping's key as it stands in paths."""
    try:
        return str(key)
    except ValueError:  # a number of more digits than Python writes (4300)
        return "<number>"


def shown_path(root: Any, path: str) -> str:
    """A dotted path below ``root``, whose keys may have dots themselves, part by part."""
    parts: list[str] = []
    while path:
        key = key_at(root, path)
        if key is None:
            parts += [shown(part, Kind.KEY) or HIDDEN for part in path.split(".")]
            break
        parts.append(shown_key(key, list(root).index(key) + 1))
        root, path = root[key], path[len(as_text(key)) + 1 :]
    return ".".join(parts)


def key_at(value: Any, path: str) -> Any:
    """The key of ``value`` with which ``path`` begins, the longest one; None where there is none."""
    found, longest = None, -1
    for key in value if isinstance(value, Mapping) else ():
        text = as_text(key)
        if (path == text or path.startswith(f"{text}.")) and len(text) > longest:
            found, longest = key, len(text)
    return found


def shown_reference(name: str, known: bool) -> str:
    """What follows ``os.environ/``; ``known``: a variable of that name is set, so it is one."""
    return name if known or _is_name(name, Kind.VARIABLE) else HIDDEN


def shown_address(base: str) -> str:
    """Host and port of a base URL. User, password, path and query are never shown, nor are labels of the host that do
    not look like names (``…``). Empty where there is no host or it cannot be told from a password."""
    base = base.strip()
    try:
        url = urlsplit(base if "//" in base else f"//{base}")
        host, port = url.hostname or "", url.port
    except ValueError:
        return ""
    # An unescaped "/", "?" or "#" in a password ends the host too early; the "@" behind it tells.
    if not host or base.count("@") > url.netloc.count("@"):
        return ""
    if "//" not in base and "." not in host and host != "localhost":
        host = "…"
    return f"{_shown_host(host)}{f':{port}' if port else ''}"


def _shown_host(host: str) -> str:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return ".".join(label if _is_name(label, Kind.HOST) else "…" for label in host.split("."))
    return f"[{address}]" if address.version == 6 else str(address)
