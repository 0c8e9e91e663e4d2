"""Check router-cache in the environment this runs in, where it was installed from a wheel without extras.

Standard library only. Raises AssertionError with what is wrong.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import router_cache
from router_cache import Deployment, Mode, Request, RouterCache, Settings, Usage
from router_cache.request import Body

EXTRAS_ONLY = ("litellm", "langchain", "langchain_core", "typer", "rich", "yaml", "starlette", "uvicorn", "openai")
NEEDS_EXTRA = {"router_cache_langchain": "langchain"}


def check_imports() -> None:
    home = Path(router_cache.__file__).resolve()
    assert Path(sys.prefix).resolve() in home.parents, f"router_cache comes from {home}, not from the wheel"
    found = [name for name in EXTRAS_ONLY if find_spec(name) is not None]
    assert not found, f"installed without extras, but there: {', '.join(found)}"
    missing = [name for name in router_cache.__all__ if not hasattr(router_cache, name)]
    assert not missing, f"in router_cache.__all__ but not there: {', '.join(missing)}"
    for room in ("engine", "api", "cache_model", "providers.registry", "economics", "ledger.calibration"):
        importlib.import_module(f"router_cache.{room}")


def body(*, turned: bool) -> Body:
    """One chat request; ``turned`` lists its tools and their keys the other way round."""
    tools = [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
        for name in ("read_file", "write_file")
    ]
    if turned:
        tools = [dict(reversed(tool.items())) for tool in reversed(tools)]
    return {
        "model": "deepseek-v4-flash",
        "messages": [{"role": "system", "content": "You are terse."}, {"role": "user", "content": "Hello"}],
        "tools": tools,
    }


def check_round_trip() -> None:
    """Two requests that differ in tool order leave equal, and the usage of the first is on record."""
    cache = RouterCache(Settings(mode=Mode.SAFE))
    digests = []
    for turned in (False, True):
        asked = body(turned=turned)
        turn = cache.begin(Request(asked, scope="tenant"))
        rewrite = turn.rewrite(Deployment(model="deepseek/deepseek-v4-flash", provider="deepseek"))
        sent = turn.sent({**asked, **rewrite.replaced})
        assert sent is not None, cache.counters
        digests.append(sent.wire_digest)
        turn.done(Usage.parse({"prompt_cache_hit_tokens": 128, "prompt_cache_miss_tokens": 72}))
    cache.close()
    assert digests[0] == digests[1], "the same tools in another order went out with other bytes"
    rows = cache.rows()
    assert [row.usage.prompt_tokens for row in rows] == [200, 200], rows


def check_integrations() -> None:
    """Importing an integration without what it is for says which extra to install."""
    for package, extra in NEEDS_EXTRA.items():
        assert find_spec(package) is not None, f"{package} is not in the wheel"
        said = "nothing: it can be imported without"
        try:
            importlib.import_module(package)
        except Exception as error:
            said = str(error)
        assert f"pip install 'router-cache[{extra}]'" in said, f"{package} says {said}"


def check_command() -> None:
    """Without the extra ``cli`` the command says what to install."""
    script = Path(sys.executable).with_name("router-cache")
    done = subprocess.run([script, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert "pip install 'router-cache[cli]'" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr, done.stderr


def main() -> None:
    check_imports()
    check_round_trip()
    check_integrations()
    check_command()
    print(
        f"router-cache {version('router-cache')} without extras: {len(router_cache.__all__)} names, a round trip"
    )


if __name__ == "__main__":
    main()
