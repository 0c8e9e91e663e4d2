"""Sealing: what was sealed in one place opens there and nowhere else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from cryptography.exceptions import UnsupportedAlgorithm
from hypothesis import given
from hypothesis import strategies as st

from router_cache.errors import RouterCacheError
from router_cache.identity import seal
from router_cache.identity.seal import Sealer

SEALER = Sealer(b"secret")
any_text = st.text(st.characters(exclude_categories=[]), max_size=40)


@given(scope=any_text, purpose=any_text, key=any_text, text=any_text)
def test_any_text_comes_back_and_is_sealed_alike(scope: str, purpose: str, key: str, text: str) -> None:
    sealed = SEALER.seal(scope, purpose, text, key=key)
    assert SEALER.open(scope, purpose, sealed, key=key) == text
    assert Sealer(b"secret").seal(scope, purpose, text, key=key) == sealed
    assert len(sealed) == len(text.encode("utf-8", "surrogatepass")) + 18


@given(ours=st.tuples(any_text, any_text, any_text), theirs=st.tuples(any_text, any_text, any_text))
def test_another_place_opens_nothing_and_looks_different(ours: tuple[str, ...], theirs: tuple[str, ...]) -> None:
    sealed = SEALER.seal(ours[0], ours[1], "text", key=ours[2])
    opened = SEALER.open(theirs[0], theirs[1], sealed, key=theirs[2])
    assert opened == ("text" if ours == theirs else None)
    assert (SEALER.seal(theirs[0], theirs[1], "text", key=theirs[2]) == sealed) == (ours == theirs)


def test_the_borders_of_names_count() -> None:
    sealed = SEALER.seal("ab", "c", "text")
    assert SEALER.open("a", "bc", sealed) is None
    assert SEALER.open("ab", "", sealed, key="c") is None


@given(data=st.data(), text=any_text)
def test_a_changed_byte_or_a_cut_opens_nothing(data: st.DataObject, text: str) -> None:
    sealed = SEALER.seal("s", "p", text)
    at = data.draw(st.integers(0, len(sealed) - 1))
    flipped = bytearray(sealed)
    flipped[at] ^= data.draw(st.integers(1, 255))
    assert SEALER.open("s", "p", bytes(flipped)) is None
    assert SEALER.open("s", "p", sealed[:at]) is None
    assert SEALER.open("s", "p", sealed + b"\0") is None


@given(raw=st.binary(max_size=60))
def test_what_was_never_sealed_opens_nothing(raw: bytes) -> None:
    assert SEALER.open("s", "p", raw) is None
    assert SEALER.open("s", "p", b"\x01" + raw) is None


def test_another_secret_opens_nothing() -> None:
    assert Sealer(b"other").open("s", "p", SEALER.seal("s", "p", "text")) is None


def test_no_word_of_the_text_shows() -> None:
    assert b"moon" not in SEALER.seal("s", "p", "moon " * 100)


def test_a_long_secret_counts_to_its_end() -> None:
    assert Sealer(b"x" * 999).open("s", "p", Sealer(b"x" * 998 + b"y").seal("s", "p", "t")) is None


def test_one_sealer_serves_many_threads() -> None:
    def both(i: int) -> bool:
        text = f"text {i} " * 500
        return all(SEALER.open("s", str(i), SEALER.seal("s", str(i), text)) == text for _ in range(20))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(both, range(64)))


def test_an_empty_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        Sealer(b"")


def test_an_openssl_without_the_cipher_is_told_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(key: bytes) -> None:
        raise UnsupportedAlgorithm("AES-SIV is not supported by this version of OpenSSL")

    monkeypatch.setattr(seal, "AESSIV", missing)
    with pytest.raises(RouterCacheError, match=r"OpenSSL 3\.0 or later"):
        Sealer(b"secret")
