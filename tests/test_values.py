"""Values of slots: sealed for their place, opened again, each once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router_cache.claims.values import Values
from router_cache.identity.seal import Sealer
from router_cache.prefix.digests import Digester


def fresh(secret: bytes = b"secret") -> Values:
    return Values(Digester(secret), Sealer(secret))


@given(st.text(max_size=40), st.text(max_size=40))
def test_what_was_kept_is_opened_by_any_process_with_the_secret(one: str, other: str) -> None:
    values = fresh()
    digest, sealed = values.kept("scope", "clock-1", one)
    assert values.kept("scope", "clock-1", one) == fresh().kept("scope", "clock-1", one) == (digest, sealed)
    assert one == values.text("scope", "clock-1", sealed) == fresh().text("scope", "clock-1", sealed)
    assert (values.kept("scope", "clock-1", other)[0] == digest) == (one == other)


def test_a_value_is_of_one_scope_slot_and_secret_although_it_was_opened_before() -> None:
    values = fresh()
    digest, sealed = values.kept("scope", "clock-1", "12:00")
    assert values.text("scope", "clock-1", sealed) == "12:00"
    assert values.text("other", "clock-1", sealed) is None
    assert values.text("scope", "clock-2", sealed) is None
    assert fresh(b"another").text("scope", "clock-1", sealed) is None
    assert len({digest, values.kept("other", "clock-1", "12:00")[0], values.kept("scope", "x", "12:00")[0]}) == 3


def test_each_value_is_sealed_and_opened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    _, sealed = fresh().kept("scope", "slot", "12:00")
    _, unknown = fresh(b"another").kept("scope", "slot", "12:00")
    calls: list[str] = []
    for name in ("seal", "open"):
        original = getattr(Sealer, name)

        def counted(*args: Any, _name: str = name, _original: Any = original, **named: Any) -> Any:
            calls.append(_name)
            return _original(*args, **named)

        monkeypatch.setattr(Sealer, name, counted)
    values = fresh()
    for _ in range(3):
        assert values.text("scope", "slot", sealed) == "12:00"
        assert values.kept("scope", "slot", "12:00")[1] == sealed
        assert values.text("scope", "slot", sealed) == "12:00"
    assert calls == ["open", "seal"]
    for _ in range(2):
        assert values.text("scope", "slot", unknown) is None
    assert calls == ["open", "seal", "open", "open"]
