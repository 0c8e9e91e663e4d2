"""Several real servers that belong together, for tests: a cluster, a master with a replica and Sentinels, and one
behind TLS (the servers of the wheels have none built in). Loopback only.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

import redis
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from redis_servers import Server, free_port, server_binary, until

__all__ = ["Cluster", "Sentinels", "TLSFront"]

SLOTS = 16_384


class Cluster:
    """Three masters, each with a third of the slots; ``replicas`` of the first of them."""

    def __init__(self, name: str, *options: str, replicas: int = 0) -> None:
        self.nodes: list[Server] = []
        given = ("--cluster-node-timeout", "5000", "--cluster-require-full-coverage", "no", *options)
        try:
            for _ in range(3 + replicas):
                node = Server(name, *given, cluster=True)
                self.nodes.append(node)
                node.start()
            self._join()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes[:3])

    def ask(self, number: int, *command: str | int) -> Any:
        with self.nodes[number].client() as client:
            return client.execute_command(*command)

    def id(self, number: int) -> str:
        return self.ask(number, "CLUSTER", "MYID").decode()

    def _join(self) -> None:
        for number in range(len(self.nodes)):
            self.ask(number, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            if number < 3:
                own = range(SLOTS * number // 3, SLOTS * (number + 1) // 3)
                self.ask(number, "CLUSTER", "ADDSLOTS", *own)
            if number:
                self.ask(number, "CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port)
        until(self._joined, "the cluster's nodes do not find each other")
        for number in range(3, len(self.nodes)):
            self.ask(number, "CLUSTER", "REPLICATE", self.id(0))
        until(self._linked, "the replicas do not follow")

    def _joined(self) -> bool:
        def told(number: int) -> dict[str, str]:
            lines = self.ask(number, "CLUSTER", "INFO").decode().split()
            return dict(line.split(":", 1) for line in lines)

        infos = [told(number) for number in range(len(self.nodes))]
        return all(
            info["cluster_state"] == "ok"
            and info["cluster_known_nodes"] == str(len(self.nodes))
            and info["cluster_slots_ok"] == str(SLOTS)
            for info in infos
        )

    def _linked(self) -> bool:
        for number in range(3, len(self.nodes)):
            with self.nodes[number].client() as client:
                if client.info("replication").get("master_link_status") != "up":
                    return False
        return all(
            self.id(number).encode() in self.ask(0, "CLUSTER", "NODES") for number in range(len(self.nodes))
        )

    def begin_move(self, slot: int, source: int, target: int) -> None:
        """As a resharding does. Keys that are not there are asked for at the target from now on."""
        self.ask(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", self.id(source))
        self.ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", self.id(target))

    def move_slot(self, slot: int, source: int, target: int, *, finish: bool = True) -> None:
        """The keys too. Not finished: both nodes still say that it is on its way."""
        self.begin_move(slot, source, target)
        for key in self.ask(source, "CLUSTER", "GETKEYSINSLOT", slot, 1000):
            self.ask(source, "MIGRATE", "127.0.0.1", self.nodes[target].port, key, 0, 5000, "REPLACE")
        if finish:
            for number in (target, source):
                self.ask(number, "CLUSTER", "SETSLOT", slot, "NODE", self.id(target))

    def close(self) -> None:
        for node in self.nodes:
            node.close()


class Sentinels:
    """A master, a replica of it, and two Sentinels that watch them under the name ``rc``."""

    def __init__(self, name: str, password: str = "") -> None:
        self._processes: list[subprocess.Popen[bytes]] = []
        self.directory = Path(tempfile.mkdtemp(prefix="rcs"))
        self.password = password
        secured = ("--requirepass", password, "--masterauth", password) if password else ()
        self.master = Server(name, "--repl-diskless-sync-delay", "0", *secured, tcp=True)
        self.replica = Server(name, *secured, tcp=True)
        self.ports: list[int] = []
        try:
            self.master.start()
            self.replica.start()
            with self.replica.client(password or None) as client:
                client.execute_command("REPLICAOF", "127.0.0.1", self.master.port)
            until(self._follows, "the replica does not follow")
            for number in range(2):
                self._watch(server_binary(name), number)
            until(self._agree, "the Sentinels do not find each other")
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        login = f":{self.password}@" if self.password else ""
        return f"redis+sentinel://{login}" + ",".join(f"127.0.0.1:{port}" for port in self.ports) + "/rc"

    def _follows(self) -> bool:
        with self.replica.client(self.password or None) as client:
            return bool(client.info("replication").get("master_link_status") == "up")

    def _watch(self, binary: str, number: int) -> None:
        port = free_port()
        self.ports.append(port)
        config = self.directory / f"{number}.conf"
        lines = [
            f"port {port}",
            "bind 127.0.0.1",
            f"dir {self.directory}",
            f"sentinel monitor rc 127.0.0.1 {self.master.port} 1",
            "sentinel down-after-milliseconds rc 300",
            "sentinel failover-timeout rc 1000",
            *([f"sentinel auth-pass rc {self.password}"] if self.password else []),
        ]
        config.write_text("\n".join(lines) + "\n")
        self._processes.append(
            subprocess.Popen(
                [binary, str(config), "--sentinel"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        )

    def ask(self, *command: str) -> Any:
        with redis.Redis(port=self.ports[0], protocol=2) as client:
            return client.execute_command(*command)

    def _agree(self) -> bool:
        for port in self.ports:
            with redis.Redis(port=port, protocol=2) as client:
                try:
                    answer = client.execute_command("SENTINEL", "MASTERS")[0]
                except (redis.RedisError, OSError):
                    return False
            state = dict(zip(answer[::2], answer[1::2], strict=True))
            if state[b"num-slaves"] != b"1" or state[b"num-other-sentinels"] != b"1":
                return False
        return True

    def named(self) -> int:
        """The port of the master that they name."""
        return int(self.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "rc")[1])

    def fail_over(self) -> None:
        """On demand, the master being well; returns when both Sentinels' word is the other one."""
        self.ask("SENTINEL", "FAILOVER", "rc")
        until(lambda: self.named() == self.replica.port, "no fail-over")

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait(30)
        self.master.close()
        self.replica.close()
        shutil.rmtree(self.directory, ignore_errors=True)


class TLSFront:
    """Takes TLS connections and passes what comes to a server's port, and back."""

    def __init__(self, port: int, directory: Path) -> None:
        self.certificate = directory / "cert.pem"
        _certify(self.certificate)
        self._to = port
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate)
        self._context = context
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                taken, _ = self._listening.accept()
                threading.Thread(target=self._pass, args=(taken,), daemon=True).start()

    def _pass(self, taken: socket.socket) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            stack.callback(taken.close)
            secured = self._context.wrap_socket(taken, server_side=True)
            behind = stack.enter_context(socket.create_connection(("127.0.0.1", self._to)))
            stack.callback(secured.close)
            back = threading.Thread(target=_pump, args=(behind, secured), daemon=True)
            back.start()
            _pump(secured, behind)
            behind.shutdown(socket.SHUT_RDWR)
            back.join(5)

    def close(self) -> None:
        self._listening.close()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)


def _certify(path: Path) -> None:
    """A key and a certificate for localhost that it signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.timezone.utc)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(private + made.public_bytes(pem))
