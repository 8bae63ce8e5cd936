"""Ports for the servers of tests."""

import socket
from contextlib import ExitStack

from greatseal.testing.service import free_port


def test_a_free_port_is_given_once_and_can_be_listened_on() -> None:
    ports = {free_port() for _ in range(200)}
    assert len(ports) == 200
    with ExitStack() as servers:
        given = [servers.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(200)]
        assert not ports & {server.getsockname()[1] for server in given}
    with socket.create_server(("127.0.0.1", min(ports))) as server:
        assert server.getsockname()[1] in ports
