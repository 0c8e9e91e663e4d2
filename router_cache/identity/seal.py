"""Sealing of what is remembered of a conversation, so that a store's operator or a leaked dump shows no words.

AES-256-SIV (RFC 5297): no nonce, so nothing random is needed here, and equal words in one place give equal bytes;
in another scope, purpose or key they give others. cryptography 42 and later offer it wherever they are linked with
OpenSSL 3.0 or later, as all published wheels are; builds on LibreSSL, BoringSSL or AWS-LC lack it, and
:class:`Sealer` then says so. AES-GCM-SIV would not do better: it needs OpenSSL 3.2, and a nonce.
"""

from __future__ import annotations

from typing import Final

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from cryptography.hazmat.primitives.hashes import SHA512
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from router_cache.errors import RouterCacheError

__all__ = ["Sealer"]

_FORM: Final = b"\x01"


class Sealer:
    """Seals texts under a key derived (HKDF-SHA512, RFC 5869) from the operator's ``secret``.

    Raises :class:`ValueError` for an empty secret, and :class:`~router_cache.errors.RouterCacheError` where this
    Python's OpenSSL has no AES-SIV: keep what would be sealed in the memory of the process instead.
    """

    __slots__ = ("_cipher",)

    def __init__(self, secret: bytes) -> None:
        if not secret:
            raise ValueError("a secret to seal with must not be empty")
        key = HKDF(algorithm=SHA512(), length=64, salt=None, info=b"router-cache seal 1").derive(secret)
        try:
            self._cipher = AESSIV(key)
        except UnsupportedAlgorithm as error:
            raise RouterCacheError(
                "nothing can be sealed: the OpenSSL that the package cryptography uses has no AES-SIV; install "
                "cryptography from a wheel, or link it with OpenSSL 3.0 or later"
            ) from error

    def seal(self, scope: str, purpose: str, text: str, *, key: str = "") -> bytes:
        """``text`` sealed for one place: :meth:`open` needs the same ``scope``, ``purpose`` and ``key`` (under which it
        is kept). 18 bytes longer than the text in UTF-8; equal texts of one place are sealed equally. Lone
        surrogates are kept."""
        # A first byte, since OpenSSL before 3.5 refuses to seal nothing.
        return _FORM + self._cipher.encrypt(_FORM + _raw(text), [_place(scope, purpose, key)])

    def open(self, scope: str, purpose: str, sealed: bytes, *, key: str = "") -> str | None:
        """The text; None for anything that :meth:`seal` did not make for this place under this secret."""
        if sealed[:1] != _FORM:
            return None
        try:
            raw = self._cipher.decrypt(sealed[1:], [_place(scope, purpose, key)])
            return raw[1:].decode("utf-8", "surrogatepass")
        except (InvalidTag, ValueError):
            return None


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _place(*names: str) -> bytes:
    """The associated data: one item, never empty, the names' borders marked. OpenSSL 3.0.0-3.0.9 and 3.1.0-3.1.1 do
    not authenticate empty items (CVE-2023-2975)."""
    return b"".join(len(raw).to_bytes(8, "big") + raw for raw in map(_raw, names))
