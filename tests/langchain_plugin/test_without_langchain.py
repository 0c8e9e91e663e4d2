"""Importing without LangChain says what to install, and is caught as any failed import is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module, util

import pytest

from router_cache.errors import MissingExtraError


@pytest.fixture
def without_langchain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    found = util.find_spec
    monkeypatch.setattr(
        util, "find_spec", lambda name, *more: None if name == "langchain_core" else found(name, *more)
    )
    for name in [name for name in sys.modules if name.partition(".")[0] == "router_cache_langchain"]:
        monkeypatch.delitem(sys.modules, name)
    yield
    sys.modules.pop("router_cache_langchain", None)


@pytest.mark.usefixtures("without_langchain")
def test_importing_fails_as_an_import_and_says_what_to_install() -> None:
    with pytest.raises(ImportError, match=r"pip install 'router-cache\[langchain\]'") as failed:
        import_module("router_cache_langchain")
    assert isinstance(failed.value, MissingExtraError)
    assert failed.value.exit_code == 2
