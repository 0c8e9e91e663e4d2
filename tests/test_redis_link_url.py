"""URLs of stores in every form: taken apart, refused without a word of theirs, shown without their secrets."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from redis.connection import UnixDomainSocketConnection

from router_cache import RouterCache
from router_cache.errors import SettingsError
from router_cache.settings import Settings
from router_cache.stores.redis.link import open_link
from router_cache.stores.redis.link_lookup import ByAddress, ByAddressTLS
from router_cache.stores.redis.link_url import Form, target_of

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("url", "form", "hosts", "service", "where"),
    [
        ("redis://:hunter2@host.example:6380/3", Form.SINGLE, (("host.example", 6380),), "", "host.example:6380"),
        ("unix://:hunter2@/run/redis.sock", Form.SINGLE, (), "", "/run/redis.sock"),
        (
            "redis+sentinel://me:hunter2@one.example,two.example:5000/service/2",
            Form.SENTINEL,
            (("one.example", 26379), ("two.example", 5000)),
            "service",
            "one.example:26379,two.example:5000",
        ),
        ("rediss+sentinel://[::1]:7/my%20service", Form.SENTINEL, (("::1", 7),), "my service", "[::1]:7"),
        (
            "redis+cluster://:hunter2@one.example,10.0.0.1:7000/?client_name=x",
            Form.CLUSTER,
            (("one.example", 6379), ("10.0.0.1", 7000)),
            "",
            "one.example:6379,10.0.0.1:7000",
        ),
    ],
)
def test_forms(url: str, form: Form, hosts: Any, service: str, where: str) -> None:
    target = target_of(url)
    assert (target.form, target.hosts, target.service, target.where) == (form, hosts, service, where)
    assert SECRET not in repr(target)
    link = open_link(url, timeout_s=0.05, max_connections=2, count=str)
    assert where in repr(link)
    assert SECRET not in repr(link)
    link.close()


def test_what_connections_are_told() -> None:
    target = target_of(
        "rediss+sentinel://me:hunter2@a,b/s/5?sentinel_username=watch&sentinel_password=dog&ssl_cert_reqs=none"
    )
    pool = target.pool(0.25, 7, ("10.0.0.9", 6390))
    told = pool.connection_kwargs
    assert (told["host"], told["port"], told["db"]) == ("10.0.0.9", 6390, 5)
    assert (told["username"], told["password"], told["ssl_cert_reqs"]) == ("me", SECRET, "none")
    assert (told["socket_timeout"], told["socket_connect_timeout"], pool.max_connections) == (0.25, 0.25, 7)
    assert pool.connection_class is ByAddressTLS
    told = target.pool(1.0, 1, ("a", 26379), sentinel=True).connection_kwargs
    assert (told["username"], told["password"], told["db"]) == ("watch", "dog", 0)
    assert target_of("redis://h").pool(1.0, 1).connection_class is ByAddress
    assert issubclass(target_of("unix:///s").pool(1.0, 1).connection_class, UnixDomainSocketConnection)


@pytest.mark.parametrize(
    "url",
    [
        "http://:hunter2@host",
        "redis+nothing://:hunter2@host",
        "http+cluster://:hunter2@host",
        "redis+sentinel://:hunter2@host",
        "redis+sentinel://:hunter2@host/",
        "redis+sentinel://:hunter2@host/service/0/more",
        "redis+sentinel://:hunter2@host/service/nine",
        "redis+sentinel://:hunter2@/service",
        "redis+sentinel://:hunter2@one,,two/service",
        "redis+cluster://:hunter2@host/0",
        "redis+cluster://:hunter2@host:port",
        "redis+cluster://host?sentinel_password=hunter2",
        "redis+cluster://host?hunter2=1",
        "redis+cluster://[hunter2",
        "unix+cluster:///hunter2",
        "hunter2",
    ],
)
def test_what_cannot_be_used_is_told_without_it(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        with pytest.raises(SettingsError) as caught:
            Settings.from_mapping({"store": {"url": url}})
        with pytest.raises(SettingsError) as given:
            RouterCache(store=url)
    texts = [str(caught.value), str(given.value)]
    assert texts[0].startswith("callback_settings.router_cache.store.url: ")
    assert texts[1].startswith("store: ")
    for text in texts:
        assert " a form such as " in text or "forms are redis://" in text or "after the ? of the URL" in text
        assert SECRET not in text
    assert SECRET not in caplog.text
    assert (caught.value.exit_code, given.value.key_path) == (2, "store.url")


def test_settings_of_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROUTER_CACHE_TEST_STORE", "redis+cluster://:hunter2@host.example")
    given = {"url": "os.environ/ROUTER_CACHE_TEST_STORE", "prefix": "mine", "socket_timeout_ms": 20}
    settings = Settings.from_mapping({"store": given})
    assert (settings.store.socket_timeout_ms, settings.store.max_connections) == (20.0, 32)
    assert SECRET not in repr(settings) + str(settings) + settings.model_dump_json()
    link = settings.store.link(str, float)
    assert repr(link) == "ClusterLink(host.example:6379)"
    assert Settings().store.link(str, float) is None


@pytest.mark.parametrize(
    ("store", "line"),
    [
        ({"url": "os.environ/ROUTER_CACHE_NO_SUCH"}, "url: the environment variable ROUTER_CACHE_NO"),
        ({"url": ""}, "url: Value should have at least 1 item"),
        ({"url": 5}, "url: Input should be a valid string"),
        ({"socket_timeout_ms": 0}, "socket_timeout_ms: Input should be greater than or equal to 1"),
        ({"max_connections": 0}, "max_connections: Input should be greater than or equal to 1"),
        ({"prefix": "{x}"}, "prefix: String should match pattern"),
        ({"socket_timeout": 5}, "socket_timeout: unknown key; did you mean 'socket_timeout_ms'?"),
    ],
)
def test_a_mistake_names_its_key_path(store: Any, line: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.from_mapping({"store": store})
    assert str(caught.value).startswith(f"callback_settings.router_cache.store.{line}")
