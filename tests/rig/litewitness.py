"""The witness of filippo.io/torchwood, with the key in an SSH agent."""

import os
import shutil
import sqlite3
import subprocess
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from rig.apache import wait_until_it_listens

from greatseal.testing.service import free_port
from greatseal_mtc.hashes import SHA256
from greatseal_mtc.note import Kind, NoteKey

NAME = "witness.example/w"


class Litewitness:
    """One that knows a log, which is given to it before it runs."""

    def __init__(self, program: Path, folder: Path) -> None:
        if shutil.which("ssh-agent") is None:
            pytest.skip("ssh-agent is not installed: make peers")
        self._program, self._folder, self.port = program, folder, free_port()
        self._private = ed25519.Ed25519PrivateKey.generate()
        self.key = NoteKey(NAME, Kind.ED25519_COSIGNER, self._private.public_key())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextmanager
    def knowing(self, log: NoteKey) -> Iterator[None]:
        """While it runs."""
        secret, agent_socket, output = self._folder / "witness_key", self._folder / "agent", self._folder / "output"
        secret.write_bytes(self._private.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
        secret.chmod(0o600)
        with closing(sqlite3.connect(self._folder / "witness.db")) as database, database:
            database.execute("CREATE TABLE log (origin TEXT PRIMARY KEY, tree_size INTEGER NOT NULL, tree_hash TEXT NOT NULL)")
            database.execute("CREATE TABLE key (origin TEXT NOT NULL, key TEXT NOT NULL, FOREIGN KEY(origin) REFERENCES log(origin))")
            database.execute("INSERT INTO log VALUES (?, 0, ?)", (log.name, b64encode(SHA256.empty).decode()))
            database.execute("INSERT INTO key VALUES (?, ?)", (log.name, log.vkey))
        with running(output, "ssh-agent", "-D", "-a", agent_socket) as agent:
            while not agent_socket.exists():
                assert agent.poll() is None, output.read_text()
                time.sleep(0.01)
            subprocess.run(["ssh-add", secret], env={**os.environ, "SSH_AUTH_SOCK": str(agent_socket)}, capture_output=True, check=True)
            said = subprocess.run(["ssh-keygen", "-lf", secret], capture_output=True, text=True, check=True).stdout
            options = ("-db", self._folder / "witness.db", "-name", NAME, "-ssh-agent", agent_socket, "-key", said.split()[1])
            with running(output, self._program, *options, "-listen", f"127.0.0.1:{self.port}") as witness:
                wait_until_it_listens(witness, self.port, self._folder)
                yield


@contextmanager
def running(output: Path, *command: object) -> Iterator["subprocess.Popen[bytes]"]:
    """A program, until the context ends."""
    with output.open("ab") as file, subprocess.Popen([*map(str, command)], stdout=file, stderr=file) as process:
        try:
            yield process
        finally:
            process.terminate()
