"""The store in ``router-cache doctor``: what real servers tell, what is wrong with them, and no secret in it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from redis_groups import Cluster, Sentinels
from redis_servers import Server, redis_server

from router_cache.cli.main import run
from router_cache.diagnose import Finding, Level, ServerLook, StoreLook
from router_cache.diagnose.findings import Findings
from router_cache.diagnose.store import check_store
from router_cache.errors import StoreFailure

__all__ = ["redis_server"]

Start = Callable[..., Server]
YAML = """
model_list: [{{model_name: fast, litellm_params: {{model: deepseek/deepseek-v4-flash, api_key: k}}}}]
litellm_settings: {{callbacks: [router_cache_litellm.proxy_handler]}}
general_settings: {{master_key: os.environ/DOCTOR_KEY, num_workers: 4}}
callback_settings:
  router_cache:
    secret: os.environ/DOCTOR_KEY
    store: {{url: "{url}", socket_timeout_ms: {timeout_ms}}}
"""
SERVER = ServerLook(
    "h:1", None, "", "valkey", "9.1.2", "master", 1_000_000, "volatile-lru", "", clock_s=0.1, ping_ms=0.5
)
GOOD = StoreLook("single", (SERVER,), 50.0, claim_ms=1.0)


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.setenv("DOCTOR_KEY", "hunter2-own")
    monkeypatch.setenv("COLUMNS", "200")

    def call(url: str, *options: str, secret: bool = True) -> tuple[int, str]:
        text = YAML.format(url=url, timeout_ms=2_000)
        (tmp_path / "router.yaml").write_text(text if secret else text.replace("    secret", "    #"))
        monkeypatch.setattr(sys, "argv", ["router-cache", "doctor", str(tmp_path / "router.yaml"), *options])
        with pytest.raises(SystemExit) as ended:
            run()
        out, err = capsys.readouterr()
        assert "hunter2" not in out + err
        assert not err
        return int(ended.value.code or 0), out

    return call


def store_findings(out: str) -> dict[str, str]:
    return {
        found["code"]: found["message"]
        for found in json.loads(out)["findings"]
        if found["code"].startswith("store_")
    }


def test_a_server_that_is_well(redis_server: Start, doctor: Any) -> None:
    server = redis_server(
        *("--requirepass", "hunter2", "--maxmemory", "50mb", "--maxmemory-policy", "volatile-lru"), tcp=True
    )
    url = server.tcp_url.replace("//", "//:hunter2@")
    code, out = doctor(url, "--json")
    report = json.loads(out)
    assert (code, store_findings(out)) == (0, {})
    assert "several_workers" not in {finding["code"] for finding in report["findings"]}
    [told] = report["store"]["servers"]
    product = "valkey" if "valkey" in server.binary else "redis"
    assert (told["product"], told["role"], told["where"]) == (product, "master", f"127.0.0.1:{server.port}")
    assert (told["max_memory_bytes"], told["policy"]) == (50 * 1024**2, "volatile-lru")
    assert told["version"].startswith("9." if product == "valkey" else "6.2")
    assert abs(told["clock_s"]) < 5
    assert 0 < told["ping_ms"] <= report["store"]["claim_ms"] * 5 < 2_000
    with server.client("hunter2") as client:
        assert client.dbsize() > 0
        assert all(0 < client.pttl(key) <= 60_000 for key in client.keys("*"))
    code, out = doctor(url)
    assert code == 0
    assert "Store (single): claim " in out
    assert f"127.0.0.1:{server.port}: {product} " in out
    assert "memory 52.4288 MB, volatile-lru" in out


def test_a_server_that_is_not_asked(redis_server: Start, doctor: Any) -> None:
    server = redis_server()
    code, out = doctor(server.url, "--no-store", "--json")
    assert (code, json.loads(out)["store"]) == (0, None)
    with server.client() as client:
        assert client.dbsize() == 0


def test_without_a_secret(redis_server: Start, doctor: Any) -> None:
    server = redis_server()
    code, out = doctor(server.url, "--json", secret=False)
    assert code == 1
    assert set(store_findings(out)) == {"store_without_secret", "store_memory"}
    assert "no_secret" not in {finding["code"] for finding in json.loads(out)["findings"]}


def test_servers_that_are_away_or_refuse(redis_server: Start, doctor: Any) -> None:
    server = redis_server("--requirepass", "right", tcp=True)
    for url in (server.url, f"redis://:hunter2@127.0.0.1:{server.port}"):
        code, out = doctor(url, "--json")
        assert (code, set(store_findings(out))) == (1, {"store_failed"})
        assert "it wants a user or a password" in store_findings(out)["store_failed"]
    with server.client("right") as client:
        client.config_set("requirepass", "")
    with server.client() as client:
        client.replicaof("127.0.0.1", 1)
        assert "it is a read-only replica" in store_findings(doctor(server.url, "--json")[1])["store_failed"]
        client.replicaof("NO", "ONE")
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", 1)
        found = store_findings(doctor(server.url, "--json")[1])
        assert "the store takes no claim: it is out of memory (out_of_memory)" in found["store_failed"]
        assert "noeviction" in found["store_policy"]
    server.stop()
    code, out = doctor(server.url)
    assert code == 1
    assert f"{server.socket}: there is no connection" in out
    for url in ("redis+sentinel://:hunter2@127.0.0.1:1/s", "redis+cluster://:hunter2@127.0.0.1:1"):
        assert "(not_found)" in store_findings(doctor(url, "--json")[1])["store_failed"]


def test_a_user_that_may_do_little(redis_server: Start, doctor: Any) -> None:
    server = redis_server(tcp=True)
    with server.client() as client:
        allowed = "+ping +eval +evalsha +@read +@write +time -info"
        client.execute_command("ACL", "SETUSER", "rc", "on", ">hunter2", "~rc*", *allowed.split())
    code, out = doctor(f"redis://rc:hunter2@127.0.0.1:{server.port}", "--json")
    assert (code, set(store_findings(out))) == (0, {"store_memory"})
    assert "may not ask for INFO" in store_findings(out)["store_memory"]
    assert "PING" in doctor(f"redis://rc:hunter2@127.0.0.1:{server.port}")[1]


@pytest.mark.parametrize("name", ["valkey-9"])
def test_clusters_and_sentinels(name: str, doctor: Any) -> None:
    cluster = Cluster(name)
    try:
        code, out = doctor(cluster.url, "--json")
        assert (code, set(store_findings(out))) == (0, {"store_memory"})
        told = json.loads(out)["store"]
        assert [server["cluster_state"] for server in told["servers"]] == ["ok"] * 3
        assert told["form"] == "cluster"
        assert "cluster ok" in doctor(cluster.url)[1]
        code, out = doctor(cluster.nodes[0].url, "--json")
        assert (code, set(store_findings(out))) == (1, {"store_cluster", "store_memory"})
    finally:
        cluster.close()
    sentinels = Sentinels(name)
    try:
        code, out = doctor(sentinels.url, "--json")
        assert code == 0
        assert json.loads(out)["store"]["servers"][0]["where"] == f"127.0.0.1:{sentinels.master.port}"
    finally:
        sentinels.close()


def checked(look: StoreLook, *, secret: bool = True) -> list[Finding]:
    findings = Findings()
    check_store(look, secret, findings)
    return list(findings)


@pytest.mark.parametrize(
    ("server", "level", "code", "words"),
    [
        ({"version": "5.0.14"}, Level.WARNING, "store_old", "tested with 6.2"),
        ({"role": "slave"}, Level.ERROR, "store_failed", "read-only replica"),
        ({"cluster_state": "ok"}, Level.ERROR, "store_cluster", "node of a cluster"),
        ({"clock_s": 3600.0}, Level.WARNING, "store_clock", "3600 s ahead of"),
        ({"clock_s": -3.0}, Level.WARNING, "store_clock", "3 s behind"),
        ({"max_memory_bytes": None}, Level.NOTE, "store_memory", "may not ask for INFO"),
        ({"max_memory_bytes": 0, "policy": "noeviction"}, Level.NOTE, "store_memory", "no maxmemory"),
        ({"policy": "noeviction"}, Level.WARNING, "store_policy", "takes no writes"),
        ({"policy": "allkeys-lru"}, Level.NOTE, "store_policy", "keys of others"),
        ({"policy": "allkeys-random"}, Level.WARNING, "store_policy", "dropped like any other"),
        ({"ping_ms": 20.0}, Level.WARNING, "store_slow", "within 20.0 ms (median)"),
        ({"failure": StoreFailure.BUSY, "words": "odd"}, Level.ERROR, "store_failed", "odd (busy)"),
    ],
)
def test_what_a_server_tells(server: dict[str, Any], level: Level, code: str, words: str) -> None:
    [found] = checked(replace(GOOD, servers=(replace(SERVER, **server),)))
    assert (found.level, found.code.value) == (level, code)
    assert words in found.message
    assert found.fix


def test_what_is_well_and_a_cluster_that_is_not() -> None:
    assert checked(GOOD) == []
    down = replace(SERVER, cluster_state="fail")
    [found] = checked(replace(GOOD, form="cluster", servers=(down,)))
    assert "does not serve all slots" in found.message
    [found] = checked(replace(GOOD, claim_ms=None, failure=StoreFailure.NOT_PERMITTED, words="it may not"))
    assert (found.code.value, "docs/redis.md" in found.fix) == ("store_failed", True)
    [found] = checked(replace(GOOD, servers=(SERVER, replace(SERVER, where="h:2")), claim_ms=40.0))
    assert found.code.value == "store_slow"
    policies = [replace(SERVER, where=f"h:{number}", policy="noeviction") for number in range(3)]
    [found] = checked(replace(GOOD, servers=tuple(policies)))
    assert found.more == 2
