"""What is sealed for the world outside outlives a rotation of the cluster key, and no old cluster key makes one."""

import base64
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from greatseal.api.identity import ExpiredTicket
from greatseal.testing.keys import Sealer, load_cluster_key
from greatseal_idp.sessions.ticket import change_tickets
from greatseal_idp.token.issue import OpaqueTokens


def sent(cookie: str) -> Any:
    """A call of which only the cookie counts."""
    return SimpleNamespace(headers={"Cookie": cookie.partition(";")[0]})


@pytest.fixture
def sections(fresh_database: Any, tmp_path: Any) -> Any:
    """Of a service that can start again."""
    return {"database": {"url": fresh_database()}, "cluster": {"key_file": str(tmp_path / "kept.key")}}


async def test_an_opaque_token_and_a_ticket_outlive_the_cluster_key_and_the_process(start_desk: Any, sections: Any) -> None:
    desk = await start_desk(**sections)
    client = await desk.client(more={"access_token_format": "opaque"})
    token = (await desk.own_token(client, scope="api")).json["access_token"]
    ticket = ExpiredTicket(username="alice", realm="LOCALHOST", changer="people", return_to="/account")
    _, cookie = await change_tickets(desk.host).set(ticket)

    await desk.host.keys.rotate_cluster_key()
    await desk.service.stop()
    again = await start_desk(**sections)
    again._secrets = desk._secrets

    assert (await again.introspect(client, token))["active"] is True
    assert await change_tickets(again.host).of(sent(cookie)) == ticket


async def test_a_cluster_key_makes_no_opaque_token(start_desk: Any, sections: Any) -> None:
    desk = await start_desk(**sections)
    client = await desk.client(more={"access_token_format": "opaque"})
    token = (await desk.own_token(client, scope="api")).json["access_token"]
    leaked = Sealer(load_cluster_key(Path(sections["cluster"]["key_file"]), create=False))
    claims = json.dumps(await OpaqueTokens(desk.host).read(token)).encode()

    sealed = leaked.seal(claims, table="idp_access_token", row="n1", field="claims")
    forged = f"at_n1_{base64.urlsafe_b64encode(sealed).rstrip(b'=').decode()}"

    assert (await desk.introspect(client, forged)) == {"active": False}


async def test_an_envelope_of_another_purpose_or_node_is_none(start_desk: Any, sections: Any) -> None:
    desk = await start_desk(**sections)
    ticket = ExpiredTicket(username="alice", realm="LOCALHOST", changer="people", return_to="/account")
    _, cookie = await change_tickets(desk.host).set(ticket)
    text = cookie.partition(";")[0].partition("=")[2].removeprefix("ct_n1_")
    opaque = OpaqueTokens(desk.host)
    token = await opaque.write({"sub": "alice"})

    assert await opaque.read(token) == {"sub": "alice"}
    assert await opaque.read(f"at_n1_{text}") is None
    assert await opaque.read(token.replace("at_n1_", "at_n2_")) is None
    assert await opaque.read("at_n1_AAAA") is None
    assert await change_tickets(desk.host).of(sent(f"greatseal_change={token}")) is None
