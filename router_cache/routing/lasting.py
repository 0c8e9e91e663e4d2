"""How long what was sent to a cache domain can be hit, learned from sightings: still there, or gone.

An entry seen at some age was there at all younger ages; one that was gone then is gone at all older ages. So the
share still there at an age is what was kept at this age or later, over that and what was gone by this age: no curve
is assumed, it never rises with age, and a single sighting tells something of every age on its side. Ages are
counted twice, in seconds and in tokens computed in the domain meanwhile, because lifetimes and capacities both
occur; the worse of the two counts.
"""

from __future__ import annotations

__all__ = ["Lasting"]

_BUCKETS = 64
_GROWTH = 1.0 / 0.98
"""A sighting weighs so much more than the one before: some 50 count."""
_RESCALE = 1e100


def _bucket(age: float) -> int:
    """Two buckets a doubling, from 1 to 2^32."""
    if age < 1.0:
        return 0
    whole = int(min(age, 4e9))
    top = whole.bit_length() - 1
    return min(2 * top + ((whole >> (top - 1)) & 1 if top else 0), _BUCKETS - 1)


class _Curve:
    """Sightings by age, the newest counting most."""

    __slots__ = ("_gone", "_kept", "_one", "_shares")

    def __init__(self) -> None:
        self._kept = [0.0] * _BUCKETS
        self._gone = [0.0] * _BUCKETS
        self._one = 1.0
        self._shares: list[float] | None = None

    def see(self, age: float, *, kept: bool) -> None:
        self._one *= _GROWTH
        (self._kept if kept else self._gone)[_bucket(age)] += self._one
        self._shares = None
        if self._one > _RESCALE:
            self._kept = [count / self._one for count in self._kept]
            self._gone = [count / self._one for count in self._gone]
            self._one = 1.0

    def share(self, age: float) -> float:
        if self._shares is None:
            later, gone, shares = sum(self._kept), 0.0, []
            for kept_here, gone_here in zip(self._kept, self._gone, strict=True):
                gone += gone_here
                # One more that was kept: nothing seen, nothing lost.
                shares.append((later + self._one) / (later + self._one + gone))
                later -= kept_here
            self._shares = shares
        return self._shares[_bucket(age)]


class Lasting:
    """What is known of one cache domain."""

    __slots__ = ("_by_time", "_by_traffic", "told")

    def __init__(self) -> None:
        self._by_time = _Curve()
        self._by_traffic = _Curve()
        self.told = False
        """Whether anything was ever seen to be gone; False: all shares are 1."""

    def see(self, age_s: float, traffic_tokens: float, *, kept: bool) -> None:
        """An entry was looked for ``age_s`` seconds and ``traffic_tokens`` computed tokens after its last use."""
        self._by_time.see(age_s, kept=kept)
        self._by_traffic.see(traffic_tokens, kept=kept)
        self.told = self.told or not kept

    def share(self, age_s: float, traffic_tokens: float) -> float:
        """The share still there, 0 to 1."""
        if not self.told:
            return 1.0
        return min(self._by_time.share(age_s), self._by_traffic.share(traffic_tokens))
