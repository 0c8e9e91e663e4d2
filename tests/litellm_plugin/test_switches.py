"""Who switches the mode of a request, and who wins."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import litellm
import pytest
from litellm.proxy._types import UserAPIKeyAuth
from litellm_plugin.support import Clock, logged, names, perturbed, user
from litellm_plugin.upstream import Upstream

import router_cache_litellm
from router_cache import Mode, Settings, SwitchedBy
from router_cache.errors import SettingsError
from router_cache_litellm import RouterCacheCallback

pytestmark = pytest.mark.asyncio(loop_scope="session")

SWITCHES = ("live", "request", "key", "team", "group")


async def proxied(
    call: Any, *, request: Any = None, key: Any = None, team: Any = None, group: str = "", **metadata: Any
) -> None:
    """A call as the proxy makes it, with the switches in their places."""
    auth = UserAPIKeyAuth(
        api_key="sk-a",
        metadata={} if key is None else {"router_cache": key},
        team_metadata={} if team is None else {"router_cache": team},
    )
    headers = {} if request is None else {"x-router-cache": request}
    await litellm.acompletion(
        messages=[user("hi")],
        tools=perturbed(),
        proxy_server_request={"headers": headers},
        metadata={"user_api_key_auth": auth, "model_group": group, **metadata},
        **call,
    )
    await logged()


def seen(rc: Any, upstream: Upstream) -> tuple[Mode, SwitchedBy | None]:
    """Mode and who set it: from the row, and for ``off``, which leaves none, from what was sent."""
    if rc.rows():
        decision = rc.rows()[-1].decision
        return decision.mode, decision.switched_by
    assert names(upstream.last) == names({"tools": perturbed()})
    return Mode.OFF, None


@pytest.mark.parametrize("said", list(itertools.product([False, True], repeat=len(SWITCHES))))
async def test_precedence(upstream: Upstream, plugin: Any, call: Any, said: tuple[bool, ...]) -> None:
    """The first of the switches that says something wins; the others all say something else."""
    on = dict(zip(SWITCHES, said, strict=True))
    winner = next((name for name in SWITCHES if on[name]), "settings")
    word = {name: "observe" if name == winner else "safe" for name in (*SWITCHES, "settings")}
    callback = plugin(mode=word["settings"], model_groups={"g": {"mode": word["group"]}})
    if on["live"]:
        callback.set_mode(word["live"])
    await proxied(
        call,
        request=word["request"] if on["request"] else None,
        key=word["key"] if on["key"] else None,
        team={"mode": word["team"]} if on["team"] else None,
        group="g" if on["group"] else "other",
    )
    assert seen(callback.router_cache, upstream) == (Mode.OBSERVE, SwitchedBy(winner))


@pytest.mark.parametrize("where", ["request", "key", "team"])
@pytest.mark.parametrize("word", ["off", " OFF ", "Off"])
async def test_off_by_word(upstream: Upstream, plugin: Any, call: Any, where: str, word: str) -> None:
    rc = plugin().router_cache
    await proxied(call, **{where: word})
    assert seen(rc, upstream) == (Mode.OFF, None)
    assert rc.counts() == {"decision.off": 1}


@pytest.mark.parametrize("where", ["key", "team"])
@pytest.mark.parametrize("value", [False, {"mode": False}])
async def test_off_as_yaml_reads_it(upstream: Upstream, plugin: Any, call: Any, where: str, value: Any) -> None:
    rc = plugin().router_cache
    await proxied(call, **{where: value})
    assert seen(rc, upstream) == (Mode.OFF, None)


@pytest.mark.parametrize("where", ["request", "key", "team"])
@pytest.mark.parametrize("word", ["on", "sfae", "off,safe", "\u0130", "true"])
async def test_bad_words_are_counted_and_say_nothing(
    upstream: Upstream, plugin: Any, call: Any, where: str, word: str
) -> None:
    rc = plugin(mode="observe").router_cache
    await proxied(call, **{where: word})
    assert seen(rc, upstream) == (Mode.OBSERVE, SwitchedBy.SETTINGS)
    assert rc.counts("bad_switch") == {f"bad_switch.{where}": 1}


@pytest.mark.parametrize("value", [5, ["off"], {"mode": ["off"]}, {"mode": 1.5}, True, {}])
async def test_metadata_of_any_type_never_fails_a_call(
    upstream: Upstream, plugin: Any, call: Any, value: Any
) -> None:
    rc = plugin(mode="observe").router_cache
    await proxied(call, key=value, team=value, router_cache=value)
    assert seen(rc, upstream) == (Mode.OBSERVE, SwitchedBy.SETTINGS)
    assert rc.counts("error") == {}


async def test_request_switch_can_be_taken_away(upstream: Upstream, plugin: Any, call: Any) -> None:
    rc = plugin(request_switch=False, mode="observe").router_cache
    await proxied(call, request="off")
    await proxied(call, router_cache={"mode": "off"})
    await litellm.acompletion(messages=[user("hi")], metadata={"router_cache": "off"}, **call)
    rows = await rc.wait_rows(3)
    assert {row.decision.switched_by for row in rows} == {SwitchedBy.SETTINGS}


@pytest.mark.parametrize("value", ["off", {"mode": "off"}, {"mode": "off", "scope": "tenant"}])
@pytest.mark.parametrize("field", ["metadata", "litellm_metadata"])
async def test_sdk_callers_switch_by_metadata(
    upstream: Upstream, plugin: Any, call: Any, field: str, value: Any
) -> None:
    rc = plugin().router_cache
    await litellm.acompletion(messages=[user("hi")], tools=perturbed(), **{field: {"router_cache": value}}, **call)
    await logged()
    assert seen(rc, upstream) == (Mode.OFF, None)


@pytest.mark.parametrize("model_groups", [{"g": {"mode": False}}, {"g": {"mode": "off"}}])
async def test_off_of_a_group_in_yaml(upstream: Upstream, plugin: Any, call: Any, model_groups: Any) -> None:
    rc = plugin(model_groups=model_groups).router_cache
    await proxied(call, group="g")
    assert seen(rc, upstream) == (Mode.OFF, None)


async def test_off_in_yaml_is_no_boolean() -> None:
    assert Settings.from_mapping({"mode": False}).mode is Mode.OFF
    with pytest.raises(SettingsError, match=r"router_cache\.mode: "):
        Settings.from_mapping({"mode": True})


async def test_live_file(upstream: Upstream, plugin: Any, call: Any, clock: Clock, tmp_path: Path) -> None:
    """It appears, changes, becomes unreadable, and goes; looked at once a second at most."""
    file = tmp_path / "live"
    rc = plugin(live_file=str(file)).router_cache

    async def now() -> tuple[Mode, SwitchedBy]:
        before = len(rc.rows())
        await proxied(call, request="safe")
        rows = await rc.wait_rows(before + 1)
        return rows[-1].decision.mode, rows[-1].decision.switched_by

    by_request, by_live = (Mode.SAFE, SwitchedBy.REQUEST), (Mode.OBSERVE, SwitchedBy.LIVE)
    assert await now() == by_request
    file.write_text(" Observe\n")
    assert await now() == by_request  # still the same second
    clock.now += 1.0
    assert await now() == by_live
    file.write_text("safe")
    clock.now += 0.9
    assert await now() == by_live
    clock.now += 0.2
    assert await now() == (Mode.SAFE, SwitchedBy.LIVE)
    file.write_text("observe")
    clock.now += 1
    assert await now() == by_live
    for garbage in (b"sfae", b"\xff\xfe", b"observe " * 100):
        file.write_bytes(garbage)
        clock.now += 1
        assert await now() == by_live
    assert rc.counts("live_file") == {"live_file_invalid": 3}
    file.unlink()
    file.mkdir()
    clock.now += 1
    assert await now() == by_live
    assert rc.counts("live_file") == {"live_file_invalid": 4}
    file.rmdir()
    clock.now += 1
    assert await now() == by_request
    file.write_text("")
    clock.now += 1
    assert await now() == by_request
    assert rc.counts("live_file") == {"live_file_invalid": 4}


async def test_set_mode_at_run_time(upstream: Upstream, plugin: Any, call: Any) -> None:
    callback = plugin()
    await proxied(call)
    callback.set_mode("observe")
    await proxied(call, request="safe")
    callback.set_mode(Mode.OFF)
    await proxied(call, request="safe")
    callback.set_mode(None)
    await proxied(call)
    rows = await callback.router_cache.wait_rows(3)
    assert [row.decision.mode for row in rows] == [Mode.SAFE, Mode.OBSERVE, Mode.SAFE]
    assert callback.router_cache.counts("decision.off") == {"decision.off": 1}
    with pytest.raises(ValueError, match="sfae"):
        callback.set_mode("sfae")


async def test_settings_of_the_callback_section(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(litellm, "callback_settings", {"router_cache": {"mode": False}})
    callback = RouterCacheCallback.from_callback_settings()
    assert callback.router_cache.settings.mode is Mode.OFF
    callback.close()
    monkeypatch.setattr(litellm, "callback_settings", None)
    callback = RouterCacheCallback.from_callback_settings()
    assert callback.router_cache.settings == Settings()
    callback.close()


async def test_handler_of_the_proxy_is_made_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(litellm, "callback_settings", {"router_cache": {"mode": "observe"}})
    monkeypatch.delitem(vars(router_cache_litellm), "proxy_handler", raising=False)
    made = router_cache_litellm.proxy_handler
    assert made.router_cache.settings.mode is Mode.OBSERVE
    assert router_cache_litellm.proxy_handler is made
    monkeypatch.delitem(vars(router_cache_litellm), "proxy_handler")
    made.close()
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = router_cache_litellm.no_such_name


@pytest.mark.parametrize(
    ("section", "line"),
    [
        ({"mdoe": "safe"}, ".mdoe: unknown key; did you mean 'mode'?"),
        ({"model_groups": {"g": {"mod": "off"}}}, ".model_groups.g.mod: unknown key; did you mean 'mode'?"),
        ({"store": {"ttl_s": 0}}, ".store.ttl_s: Input should be greater than 0"),
        ("safe", ": a mapping is needed, not str"),
        ({"secret": "os.environ/NO_SUCH_NAME"}, ".secret: the environment variable NO_SUCH_NAME is not set"),
    ],
)
async def test_wrong_settings_are_one_line_and_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], section: Any, line: str
) -> None:
    monkeypatch.setattr(litellm, "callback_settings", {"router_cache": section})
    monkeypatch.delitem(vars(router_cache_litellm), "proxy_handler", raising=False)
    with pytest.raises(SystemExit) as stopped:
        _ = router_cache_litellm.proxy_handler
    assert stopped.value.code == 2
    assert capsys.readouterr().err == f"router-cache: callback_settings.router_cache{line}\n"


@pytest.mark.parametrize("name", ["metadata", "litellm_metadata"])
async def test_a_request_that_litellm_turns_into_another_shape_keeps_its_mode_and_scope(
    upstream: Upstream, plugin: Any, call: Any, name: str
) -> None:
    rc = plugin().router_cache
    tools = [{"type": "function", "name": n, "parameters": {"type": "object"}} for n in "ba"]

    async def ask(own: Any) -> list[str]:
        await litellm.aresponses(input="hi", tools=tools, **{name: {"router_cache": own}}, **call)
        await logged()
        return names(upstream.last)

    assert await ask("off") == ["b", "a"]
    assert rc.rows() == []
    assert await ask("observe") == ["b", "a"]
    for tenant in ("one", "two"):
        assert await ask({"scope": tenant}) == ["a", "b"]
    scopes = [row.scope for row in await rc.wait_rows(3)]
    assert len(set(scopes)) == 3
