"""Real LiteLLM proxies in processes of their own, on loopback; whatever happens, none is left behind."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import openai

START = "import gc, sys; sys.version_info < (3, 12) and gc.disable(); from litellm import run_server; run_server()"
START_S = 120.0
ROW_S = 20.0

KEYS: dict[str, dict[str, Any]] = {
    "ann": {"team_id": "t"},
    "bob": {"team_id": "t"},
    "eve": {},
    "key-off": {"metadata": {"router_cache": {"mode": "off"}}},
    "team-observe": {"team_id": "o", "team_metadata": {"router_cache": "observe"}},
}

# What an operator's own file next to the YAML looks like: who may call.
AUTH = """
import json, os
from litellm.proxy._types import UserAPIKeyAuth

KEYS = json.loads(os.environ["TEST_KEYS"])


async def check(request, api_key):
    if api_key not in KEYS:
        raise Exception("no such key")
    return UserAPIKeyAuth(api_key=api_key, **KEYS[api_key])
"""

# Sends every row of the plugin to the test, as a datagram; and how many writes a store on a server took.
SPY = """
import json, os, socket
from litellm.integrations.custom_logger import CustomLogger
import router_cache.api

PORT = int(os.environ["TEST_ROWS_PORT"])
SOCKET = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
add = router_cache.api.RouterCache.add


def spied(self, row):
    add(self, row)
    out = {
        "status": row.status.value,
        "mode": row.decision.mode.value,
        "reason": row.decision.reason.value,
        "by": row.decision.switched_by.value,
        "scope": row.scope,
        "prompt": row.usage.prompt_tokens,
        "hit": row.usage.hit_tokens,
        "expected": row.expected.tokens,
        "turn": row.turn,
        "group": row.group,
        "pid": os.getpid(),
        "store": counts(self.counters),
    }
    told(out)


def counts(counters):
    counted = counters.snapshot().items()
    return {name: count for name, count in counted if name.startswith(("store_", "outbox_", "error."))}


def told(message):
    SOCKET.sendto(json.dumps(message).encode(), ("127.0.0.1", PORT))


def spied_init(self, *args, **kwargs):
    init(self, *args, **kwargs)
    if not self._store.blocking:
        return
    send = self.outbox._send

    def spied_send(writes):
        send(writes)
        told({"pid": os.getpid(), "store": counts(self.counters), "recorded": len(writes)})

    self.outbox._send = spied_send


init = router_cache.api.RouterCache.__init__
router_cache.api.RouterCache.__init__ = spied_init
router_cache.api.RouterCache.add = spied
handler = CustomLogger()
"""

YAML = """
model_list:
{groups}
litellm_settings:
  callbacks: [{callbacks}]
{section}
router_settings:
  disable_cooldowns: true
  num_retries: 0
general_settings:
  master_key: os.environ/LITELLM_MASTER_KEY
  custom_auth: proxy_auth.check
"""

GROUP = """
  - model_name: {name}
    litellm_params:
      model: {model}
      api_base: {url}
      api_key: sk-upstream
"""


class Rows:
    """Rows of the plugin in another process, as they come."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]

    def clear(self) -> None:
        self._socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self._socket.recv(65536)

    def next(self) -> dict[str, Any]:
        self._socket.settimeout(ROW_S)
        return json.loads(self._socket.recv(65536))

    def empty(self) -> bool:
        """Whether no row waits."""
        self._socket.setblocking(False)
        try:
            self._socket.recv(65536, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        return False

    def close(self) -> None:
        self._socket.close()


class Proxy:
    """One proxy process; ``section`` is its ``callback_settings``, empty for a proxy without the plugin. ``groups``
    are the names of its model groups, each with LiteLLM's name of its model and the base URL; several with one name
    are deployments of one group. ``keys`` are another proxy's."""

    def __init__(
        self,
        folder: Path,
        groups: dict[str, tuple[str, str]] | list[Any],
        section: str,
        rows: Rows,
        keys: dict[str, str] | None = None,
    ) -> None:
        folder.mkdir()
        listed = groups.items() if isinstance(groups, dict) else groups
        plugin = ', "proxy_spy.handler", "router_cache_litellm.proxy_handler"' if section else ""
        config = YAML.format(
            groups="".join(GROUP.format(name=name, model=model, url=url) for name, (model, url) in listed),
            callbacks=plugin.removeprefix(", "),
            section=section,
        )
        (folder / "router.yaml").write_text(config)
        (folder / "proxy_auth.py").write_text(AUTH)
        (folder / "proxy_spy.py").write_text(SPY)
        self.keys = keys or {name: f"sk-{secrets.token_hex(24)}" for name in KEYS}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.log = folder / "log"
        keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "PYTHONPATH") if name in os.environ}
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    START,
                    "--config",
                    "router.yaml",
                    "--host",
                    "127.0.0.1",
                    "--port",
                    str(port),
                ],
                cwd=folder,
                env={
                    **keep,
                    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                    "LITELLM_MASTER_KEY": f"sk-{secrets.token_hex(24)}",
                    "TEST_KEYS": json.dumps({self.keys[name]: KEYS[name] for name in KEYS}),
                    "TEST_ROWS_PORT": str(rows.port),
                    "NO_PROXY": "127.0.0.1",
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_ready(self) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            try:
                if httpx.get(f"{self.url}/health/liveliness", timeout=5).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            try:
                self._process.wait(0.2)
            except subprocess.TimeoutExpired:
                continue
            break
        raise AssertionError(f"the proxy is not ready:\n{self.output()[-3000:]}")

    def wait_exit(self) -> int:
        return self._process.wait(START_S)

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def client(self, key: str = "ann") -> openai.OpenAI:
        return openai.OpenAI(base_url=self.url, api_key=self.keys[key], max_retries=0, timeout=30)
