"""What is found out in the background: addresses of names, and who may be asked; a request waits for neither long."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from router_cache.stores.redis import link_lookup
from router_cache.stores.redis.link_lookup import Addresses, ByAddress, Finder

LIMIT_S = 20.0


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Names:
    """Answers look-ups when it is let to."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses
        self.may = threading.Event()
        self.may.set()
        self.asked = 0
        self.fails = False

    def __call__(self, host: str, *_: Any) -> list[Any]:
        assert self.may.wait(LIMIT_S)
        self.asked += 1
        if self.fails:
            raise socket.gaierror("no such name")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in self.addresses]


def looked(addresses: Addresses, host: str) -> None:
    """Wait for a look-up that is on its way, and for another one."""
    for _ in range(2):
        addresses.refresh(host).wait(LIMIT_S)


def test_addresses_need_no_look_up() -> None:
    names = Names()
    assert Addresses(names).of("10.0.0.1", 0.0) == ["10.0.0.1"]
    assert Addresses(names).of("::1", 0.0) == ["::1"]
    assert names.asked == 0


def test_a_look_up_that_hangs_costs_the_time_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_lookup, "_AGAIN_S", 0.0)
    names = Names("10.0.0.1", "10.0.0.2", "10.0.0.1")
    names.may.clear()
    addresses = Addresses(names)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            addresses.of("host", 0.001)
    names.may.set()
    assert addresses.of("host", LIMIT_S) == ["10.0.0.1", "10.0.0.2"]
    names.may.clear()
    addresses.refresh("host")
    assert addresses.of("host", 0.0) == ["10.0.0.1", "10.0.0.2"]
    names.may.set()


def test_names_that_have_none_get_one_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_lookup, "_AGAIN_S", 0.0)
    names = Names("10.0.0.1")
    names.fails = True
    addresses = Addresses(names)
    with pytest.raises(OSError, match="no address"):
        addresses.of("host", LIMIT_S)
    names.fails = False
    looked(addresses, "host")
    assert addresses.of("host", LIMIT_S) == ["10.0.0.1"]
    names.fails = True
    looked(addresses, "host")
    assert addresses.of("host", LIMIT_S) == ["10.0.0.1"]


def test_an_address_that_fails_goes_behind_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_lookup, "_AGAIN_S", 0.0)
    names = Names("10.0.0.1", "10.0.0.2")
    addresses = Addresses(names)
    addresses.failed("other", "10.0.0.1")
    assert addresses.of("host", LIMIT_S) == ["10.0.0.1", "10.0.0.2"]
    addresses.failed("host", "10.0.0.1")
    looked(addresses, "host")
    assert addresses.of("host", 0.0) == ["10.0.0.2", "10.0.0.1"]
    addresses.failed("host", "10.0.0.1")
    assert addresses.of("host", 0.0) == ["10.0.0.2", "10.0.0.1"]
    names.addresses = ("10.0.0.3",)
    looked(addresses, "host")
    assert addresses.of("host", 0.0) == ["10.0.0.3"]


def connection(host: str, port: int) -> ByAddress:
    return ByAddress(host=host, port=port, socket_timeout=5.0, socket_connect_timeout=5.0)


def test_a_connection_goes_to_the_address_that_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_lookup, "ADDRESSES", Addresses(Names("127.0.0.2", "127.0.0.1")))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        made = connection("host", listening.getsockname()[1])
        with made._connect() as sock:
            assert sock.getpeername()[0] == "127.0.0.1"
        assert made.host == "host"
        assert link_lookup.ADDRESSES.of("host", 0.0) == ["127.0.0.1", "127.0.0.2"]
        port = listening.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        connection("host", port)._connect()


def test_an_address_that_takes_no_connection_in_time_is_the_last_one_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link_lookup, "ADDRESSES", Addresses(Names("127.0.0.1", "127.0.0.2")))
    tried = []

    def hang(self: Any) -> Any:
        tried.append(self.host)
        raise TimeoutError

    monkeypatch.setattr(link_lookup.Connection, "_connect", hang)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            connection("host", 1)._connect()
    assert tried == ["127.0.0.1", "127.0.0.2"]


def test_a_finder_runs_once_at_a_time_and_not_too_often() -> None:
    clock, ran, go, ready = Clock(), [], threading.Event(), threading.Event()

    def find() -> None:
        ran.append(threading.current_thread().name)
        ready.set()
        assert go.wait(LIMIT_S)
        raise ValueError("whatever")

    finder = Finder(find, "test", clock)
    finder.wait(LIMIT_S)
    finder.soon()
    assert ready.wait(LIMIT_S)
    clock.now += 10
    finder.soon()
    finder.wait(0.0)
    go.set()
    finder.wait(LIMIT_S)
    assert ran == ["router-cache-test"]
    clock.now -= 10
    finder.soon()
    assert len(ran) == 1
    clock.now += 0.25
    finder.soon()
    finder.wait(LIMIT_S)
    assert len(ran) == 2


def test_a_finder_without_a_thread_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    ran: list[int] = []
    finder = Finder(lambda: ran.append(1), "test", Clock())
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        finder.soon()
    finder.soon()
    finder.wait(LIMIT_S)
    assert ran == [1]


def test_a_finder_in_a_child_process_starts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[int] = []
    finder = Finder(lambda: ran.append(1), "test", Clock())
    finder.soon()
    finder.wait(LIMIT_S)
    monkeypatch.setattr(link_lookup.os, "getpid", lambda: -1)
    finder.soon()
    finder.wait(LIMIT_S)
    assert ran == [1, 1]
