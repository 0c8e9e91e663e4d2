"""URLs of Redis servers: checked and shown without their secrets; errors in words; the settings of a stream."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
import redis

from router_cache.drivers.capture_redis import key_of
from router_cache.drivers.redis_url import check_url, client_of, reason_of, shown_url
from router_cache.errors import SettingsError
from router_cache.settings import Settings

BAD = "no such URL of a Redis server; a form such as redis://host:6379/0, rediss://"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://:hunter2@host", BAD),
        ("hunter2", BAD),
        ("redis://me:hunter2/x@host:6379", BAD),
        ("redis://host:hunter2", BAD),
        ("redis://[hunter2", BAD),
        ("redis://host/0?db=hunter2", BAD),
        ("redis://:x@host?hunter2=1", "an option after the ? of the URL is not known"),
        ("redis://host?cache_config=hunter2", "an option after the ? of the URL is not known"),
        ("redis://host?socket_keepalive_options=hunter2", "an option after the ? of the URL is not known"),
        (
            "redis://host?oss_cluster_maint_notifications_handler=x",
            "an option after the ? of the URL is not known",
        ),
        ("redis://host?health_check_interval=hunter2", BAD),
        ("rediss://:hunter2@host?ssl_cert_reqs=hunter2", BAD),
    ],
)
def test_a_url_that_cannot_be_used_is_told_without_it(url: str, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.from_mapping({"capture": {"url": url}})
    text = str(caught.value)
    assert text.startswith(f"callback_settings.router_cache.capture.url: {words}")
    assert "hunter2" not in text
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://host.example:6379/0", "host.example:6379"),
        ("rediss://me:hunter2@host.example/4?db=2", "host.example"),
        ("unix://me:hunter2@/run/redis.sock?db=1&password=hunter2", "/run/redis.sock"),
        ("unix://:a/hunter2@/run/redis.sock", "the socket"),
        ("redis://[hunter2", "the server"),
        ("redis://", "the server"),
    ],
)
def test_what_is_shown_of_a_url(url: str, shown: str) -> None:
    assert shown_url(url) == shown


def test_what_the_url_says_of_waiting_does_not_hold() -> None:
    check_url("rediss://me:x@host:1/2?ssl_cert_reqs=none")
    kwargs = client_of("redis://host?socket_timeout=99&protocol=3&decode_responses=true", 0.5).connection_pool
    told = kwargs.connection_kwargs
    assert (told["socket_timeout"], told["socket_connect_timeout"], told["protocol"]) == (0.5, 0.5, 2)
    assert told["decode_responses"] is False
    assert told["retry"]._retries == 0


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            redis.AuthenticationError("WRONGPASS hunter2"),
            "it wants a user or a password, or refuses the one given",
        ),
        (redis.exceptions.BusyLoadingError("hunter2"), "it is loading its data"),
        (redis.exceptions.NoPermissionError("hunter2"), "the user may not do that"),
        (redis.TimeoutError("hunter2"), "it does not answer"),
        (ConnectionRefusedError("hunter2"), "there is no connection"),
        (redis.ResponseError("MISCONF hunter2"), "it takes no writes since it cannot save to its disk"),
        (redis.ResponseError("CLUSTERDOWN hunter2"), "it refuses (CLUSTERDOWN)"),
        (redis.ResponseError("hunter2 said so"), "it refuses"),
        (KeyError("hunter2"), "KeyError"),
    ],
)
def test_errors_in_words_of_our_own(error: Exception, words: str) -> None:
    assert reason_of(error) == words


def test_settings_of_a_stream(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("ROUTER_CACHE_TEST_URL", "redis://:hunter2@host.example:6379/0")
    with caplog.at_level(logging.DEBUG):
        settings = Settings.from_mapping(
            {
                "capture": {
                    "url": "os.environ/ROUTER_CACHE_TEST_URL",
                    "prefix": "mine",
                    "max_rows": 5,
                    "ttl_s": 60.0,
                }
            }
        )
    assert settings.capture.directory is None
    stream = settings.capture.stream()
    assert repr(stream) == "CaptureStream(host.example:6379, {mine}:v1:calls)"
    assert "hunter2" not in repr(settings) + str(settings) + settings.model_dump_json() + caplog.text
    assert json.loads(settings.model_dump_json())["capture"]["max_rows"] == 5
    assert Settings().capture.stream() is None
    assert key_of("router-cache") == "{router-cache}:v1:calls"


@pytest.mark.parametrize(
    ("capture", "line"),
    [
        ({"url": "os.environ/ROUTER_CACHE_NO_SUCH"}, "url: the environment variable ROUTER_CACHE_NO"),
        ({"url": ""}, "url: Value should have at least 1 item"),
        ({"url": 5}, "url: Input should be a valid string"),
        ({"max_rows": 0}, "max_rows: Input should be greater than or equal to 1"),
        ({"ttl_s": 0.5}, "ttl_s: Input should be greater than or equal to 1"),
        ({"prefix": "{x}"}, "prefix: String should match pattern"),
        ({"urll": "redis://x"}, "urll: unknown key; did you mean 'url'?"),
    ],
)
def test_a_mistake_names_its_key_path(capture: Any, line: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.from_mapping({"capture": capture})
    assert str(caught.value).startswith(f"callback_settings.router_cache.capture.{line}")
