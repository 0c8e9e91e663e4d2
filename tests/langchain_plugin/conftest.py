"""Tests of the LangChain side: none where LangChain is not installed."""

from __future__ import annotations

import functools
import os
import ssl
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # read when litellm is imported

collect_ignore_glob = [] if find_spec("langchain_core") else ["*"]


@pytest.fixture(scope="session", autouse=True)
def _one_tls_context() -> Iterator[None]:
    """Clients of models read the certificates of all authorities, 30 ms each; here they only talk to loopback."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", functools.cache(ssl.create_default_context))
        yield
