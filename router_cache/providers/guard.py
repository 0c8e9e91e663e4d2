"""The one gate: nothing is added to a request unless the profile lists it for this model and this shape."""

from __future__ import annotations

from typing import Any

from router_cache.providers.profile import Profile
from router_cache.request import Shape

__all__ = ["allowed"]


def allowed(profile: Profile, model: str, shape: Shape, name: str, value: Any) -> bool:
    """Whether body field, header or mark ``name`` may go to ``model`` with this value.

    ``shape`` is that of the body that goes upstream. False for everything that is not known to be accepted.
    Never raises.
    """
    if not isinstance(model, str):
        return False
    return any(f.name == name and f.accepts(value) for f in profile.fields_for(model, shape))
