"""A directory that is gone, hangs, answers late, is cut off or lies: sign-ins are 503 in time, and nothing else notices."""

import asyncio
import socket
import threading
from contextlib import closing, contextmanager

import pytest
from rig.directory import Parts
from rig.slapd import OPENLDAP, REALM, SERVICE, SERVICE_PASSWORD, SUFFIX

from greatseal.api.directory import DirectoryUnavailable
from greatseal.testing.desk import Desk, forgetful
from greatseal_ipa.directory import IpaDirectory
from greatseal_ipa.openldap import OpenLdap


class Between:
    """A proxy before a server: it holds answers back, or cuts the connection within one."""

    def __init__(self, port):
        self.port = port
        self.held = threading.Event()
        self.cut = False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.uri = f"ldap://127.0.0.1:{self.listener.getsockname()[1]}"
        self.ends = []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self.port))
            self.ends += [near, far]
            threading.Thread(target=self.pump, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self.pump, args=(far, near, True), daemon=True).start()

    def pump(self, source, target, is_answer):
        try:
            while octets := source.recv(65536):
                if is_answer and self.cut:
                    target.sendall(octets[: len(octets) // 2])
                    break
                if is_answer and self.held.is_set():
                    continue  # never in time
                target.sendall(octets)
        except OSError:
            pass
        finally:
            for end in (source, target):
                with closing(end):
                    pass

    def close(self):
        for end in (self.listener, *self.ends):
            with closing(end):
                pass


@contextmanager
def between(slapd):
    made = Between(slapd.port)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def own(make_slapd):
    with make_slapd() as slapd:
        yield slapd


@pytest.fixture
def start(start_service):
    async def begin(*uris):
        directory = {"ldap_uri": list(uris), "base_dn": SUFFIX, "start_tls": False, "bind_dn": SERVICE, "bind_password": SERVICE_PASSWORD}
        directory |= {"timeout_secs": 0.5, "connect_timeout_secs": 0.5, "cache_secs": 0}
        return await start_service("idp", "ipa", server={"realm": REALM}, ipa=directory)

    return begin


async def comes_back(service, desk):
    """As the job does, until the server was seen to answer."""
    assembly = service.kernel.hooks.instances["ipa"]._assembly
    while assembly.pool.servers.down():
        await assembly.pool.look()
    return await desk.login("alice", "alicepw")


async def test_f14_a_server_that_hangs_costs_nobody_its_time_twice_and_comes_back(start, own):
    service = await start(own.uri)
    assembly = service.kernel.hooks.instances["ipa"]._assembly
    async with forgetful() as http:
        desk = Desk(service, http)
        assert (await desk.login("alice", "alicepw")).status == 200
        own.pause()
        try:
            first = await desk.login("alice", "alicepw")
            asked = assembly.pool.questions
            others = await asyncio.gather(*(desk.login("bob", "bobpw") for _ in range(5)))
            elsewhere = [await desk.get(path) for path in ("/jwks", "/.well-known/openid-configuration", "/healthz")]
            assert assembly.pool.questions == asked
        finally:
            own.resume()
        up = await comes_back(service, desk)

    assert first.outcome == (503, "unavailable")
    assert {answer.status for answer in others} == {503}
    assert {answer.status for answer in elsewhere} == {200}
    assert up.status == 200


@pytest.mark.parametrize("fault", ["held", "cut"])
async def test_f14_an_answer_that_is_late_or_cut_is_503_and_the_next_one_counts(start, own, fault):
    with between(own) as proxy:
        service = await start(proxy.uri)
        async with forgetful() as http:
            desk = Desk(service, http)
            assert (await desk.login("alice", "alicepw")).status == 200
            if fault == "held":
                proxy.held.set()
            else:
                proxy.cut = True
            broken = await desk.login("alice", "alicepw")
            proxy.held.clear()
            proxy.cut = False
            up = await comes_back(service, desk)

    assert broken.outcome == (503, "unavailable")
    assert up.status == 200


async def test_f14_of_two_servers_one_may_die_and_come_back(start, own, make_slapd):
    with make_slapd() as other:
        service = await start(own.uri, other.uri)
        async with forgetful() as http:
            desk = Desk(service, http)
            assert (await desk.login("alice", "alicepw")).status == 200
            own.stop()
            assert (await desk.login("alice", "alicepw")).status == 200
            own.start()
            assert (await comes_back(service, desk)).status == 200
            other.stop()
            assert (await desk.login("alice", "alicepw")).status == 200


async def test_f14_a_server_that_was_started_again_is_asked_on_a_new_connection(start, own):
    service = await start(own.uri)
    async with forgetful() as http:
        desk = Desk(service, http)
        assert (await desk.login("alice", "alicepw")).status == 200
        own.stop()
        own.start()

        assert (await desk.login("alice", "alicepw")).status == 200


async def test_a_group_of_very_many_members_does_no_harm(make_slapd):
    with make_slapd(**OPENLDAP) as slapd:
        members = "".join(f"member: uid=user{number:06},ou=people,{SUFFIX}\n" for number in range(20_000))
        group = f"dn: cn=huge,ou=groups,{SUFFIX}\nchangetype: add\nobjectClass: groupOfNames\ncn: huge\n"
        slapd.modify(f"{group}{members}member: uid=alice,ou=people,{SUFFIX}\n")
        parts = Parts(slapd.uri, schema=OpenLdap, max_answer=500_000)
        try:
            directory = IpaDirectory(parts.reader)
            group = await directory.group("huge")
            alice = await directory.user("alice")
        finally:
            parts.close()

    assert (group.name, group.members, group.whole) == ("huge", (), False)
    assert "huge" in alice.groups


async def test_an_outage_in_the_middle_of_a_look_up_is_an_outage(own):
    """The groups of a user are asked for after the user: half of an answer is none."""
    with between(own) as proxy:
        parts = Parts(proxy.uri, seconds=0.5)
        try:
            directory = IpaDirectory(parts.reader)
            assert await directory.user("alice") is not None
            proxy.cut = True
            for ask in (directory.user("alice"), directory.group("ops"), directory.managed_by(f"host/web1.chancery.test@{REALM}")):
                with pytest.raises(DirectoryUnavailable):
                    await ask
        finally:
            parts.close()
