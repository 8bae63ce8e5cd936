"""What a library of LDAP must do for plugin ipa, over a real server: whoever would replace ldap3 inherits the class."""

import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
import trustme
from rig.slapd import MANAGER, MANAGER_PASSWORD, SERVICE, SERVICE_PASSWORD, SUFFIX, Slapd

from greatseal.testing.service import free_port
from greatseal_ipa.ldap3_link import Ldap3
from greatseal_ipa.library import Change, Down, Library, Link, Oversized, Query, Refused, Scope, Server, Terms, Unusable

PEOPLE = f"cn=users,cn=accounts,{SUFFIX}"
ALICE = f"uid=alice,{PEOPLE}"
CLEAR = Terms(start_tls=False)
SHORT = Terms(start_tls=False, connect_seconds=0.5, seconds=0.5)


def alice(*attributes: str) -> Query:
    return Query(base=PEOPLE, filter="(uid=alice)", attributes=attributes or ("uid",), limit=2)


def here(slapd: Slapd) -> Server:
    return Server("ldap", "localhost", slapd.port)


class Said:
    """Operations, each of which becomes a message with the id of the request; ``cut`` octets are left away at the end."""

    def __init__(self, *operations: bytes, cut: int = 0) -> None:
        self.operations = operations
        self.cut = cut

    def octets(self, request: bytes) -> bytes:
        at = 2 + (request[1] & 0x7F if request[1] & 0x80 else 0)
        number = request[at : at + 2 + request[at + 1]]
        whole = b"".join(_tlv(0x30, number + operation) for operation in self.operations)
        return whole[: len(whole) - self.cut]


@contextmanager
def saying(*answers: Said | bytes) -> Iterator[Server]:
    """A server that says the next of these to each request, and nothing more after them until the block ends."""
    done = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with closing(connection):
            for answer in answers:
                if not (request := connection.recv(65536)):
                    return
                with suppress(OSError):
                    connection.sendall(answer.octets(request) if isinstance(answer, Said) else answer)
            done.wait()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield Server("ldap", "127.0.0.1", listener.getsockname()[1])
    finally:
        done.set()
        listener.close()
        thread.join(10)


def message(*operations: bytes, cut: int = 0) -> Said:
    return Said(*operations, cut=cut)


def result(tag: int, code: int, more: bytes = b"") -> bytes:
    return _tlv(tag, b"\x0a\x01" + bytes([code]) + b"\x04\x00\x04\x00" + more)


def entry(dn: str, **values: bytes | Sequence[bytes]) -> bytes:
    """With one value of each attribute, or several."""
    lists = {name: [some] if isinstance(some, bytes) else some for name, some in values.items()}
    attributes = b"".join(
        _tlv(0x30, _tlv(4, name.encode()) + _tlv(0x31, b"".join(_tlv(4, one) for one in some))) for name, some in lists.items()
    )
    return _tlv(0x64, _tlv(4, dn.encode()) + _tlv(0x30, attributes))


def _tlv(tag: int, content: bytes) -> bytes:
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([0x84]) + size.to_bytes(4)
    return bytes([tag]) + length + content


BOUND = message(result(0x61, 0))


class LibraryContract(ABC):
    @abstractmethod
    def library(self) -> Library: ...

    @pytest.fixture
    def open_link(self) -> Iterator["Link"]:
        links: list[Link] = []

        def open_(server: Server, terms: Terms = CLEAR) -> Link:
            links.append(self.library().open(server, terms))
            return links[-1]

        yield open_  # type: ignore[misc]
        for link in links:
            link.close()

    @pytest.fixture
    def service(self, open_link, slapd):
        link = open_link(here(slapd))
        assert link.bind(SERVICE, SERVICE_PASSWORD).ok
        return link

    def test_a_wrong_password_is_49_and_the_connection_goes_on(self, open_link, slapd):
        link = open_link(here(slapd))

        assert link.bind(ALICE, "wrong").code == 49
        assert link.bind(ALICE, "alicepw\0").code == 49
        assert link.bind(f"uid=nobody,{PEOPLE}", "alicepw").code == 49
        assert link.bind(ALICE, "alicepw").ok

    def test_an_entry_is_made_once_and_changed_as_a_whole(self, open_link, slapd):
        link = open_link(here(slapd))
        assert link.bind(MANAGER, MANAGER_PASSWORD).ok
        dn, values = f"cn=made,{SUFFIX}", {"objectClass": ("top", "nsContainer"), "cn": ("made", b"also made")}
        try:
            assert [link.add(dn, values).code for _ in range(2)] == [0, 68]
            first = link.modify(dn, [Change("delete", "cn", ("also made",)), Change("add", "cn", ("third",))])
            second = link.modify(dn, [Change("add", "cn", ("fourth",)), Change("delete", "cn", ("also made",))])
            assert (first.code, second.code) == (0, 16)
            found = link.search(Query(base=dn, attributes=("cn",), scope=Scope.BASE)).entries[0]
            assert sorted(found.texts("cn")) == ["made", "third"]
            assert link.modify(dn, [Change("replace", "cn", ("made",))]).ok
        finally:
            slapd.modify(f"dn: {dn}\nchangetype: delete\n")

    def test_who_may_not_change_an_entry_is_told(self, open_link, slapd):
        link = open_link(here(slapd))
        assert link.bind(ALICE, "alicepw").ok

        assert link.modify(f"uid=bob,{PEOPLE}", [Change("replace", "mail", ("other@chancery.test",))]).code == 50
        assert link.add(f"cn=made,{SUFFIX}", {"objectClass": ("top", "nsContainer"), "cn": ("made",)}).code == 50

    def test_s089_an_empty_password_or_name_is_never_sent(self, open_link, slapd):
        link = open_link(here(slapd))

        for dn, password in ((ALICE, ""), ("", "alicepw"), ("", "")):
            with pytest.raises(ValueError, match="anonymous"):
                link.bind(dn, password)

    def test_attributes_are_octets_under_names_in_lower_case(self, service):
        (found,) = service.search(alice("UID", "givenName", "memberOf", "loginshell", "nothing")).entries

        assert found.text("uid") == "alice"
        assert found.values["givenname"] == (b"Alice",)
        assert f"cn=devs,cn=groups,cn=accounts,{SUFFIX}" in found.texts("memberof")
        assert "nothing" not in found.values
        assert found.text("nothing") is None

    def test_octets_that_are_digits_stay_octets(self, service):
        query = Query(base=f"cn=otp,{SUFFIX}", filter="(ipatokenOwner=uid=bob*)", attributes=("ipatokenOTPkey",), limit=10)
        query = Query(base=query.base, filter="(objectClass=ipatokenTOTP)", attributes=query.attributes, limit=10)

        keys = {found.values["ipatokenotpkey"][0] for found in service.search(query).entries}

        assert b"12345678901234567890" in keys

    def test_a_base_that_is_not_there_has_no_entries(self, service):
        assert list(service.search(Query(base=f"cn=nowhere,{SUFFIX}", attributes=("cn",))).entries) == []

    def test_a_scope_is_kept(self, service):
        base = Query(base=PEOPLE, attributes=("uid",), scope=Scope.BASE, limit=100)
        one = Query(base=f"cn=accounts,{SUFFIX}", attributes=("cn",), scope=Scope.ONE, limit=100)

        assert [found.dn for found in service.search(base).entries] == [PEOPLE]
        assert {found.text("cn") for found in service.search(one).entries} >= {"users", "groups", "computers"}

    def test_a_limit_cuts_and_says_so(self, service):
        everybody = Query(base=PEOPLE, filter="(objectClass=posixAccount)", attributes=("uid",), limit=4)

        cut = service.search(everybody)

        assert (len(cut.entries), cut.complete) == (4, False)
        whole = service.search(Query(base=PEOPLE, filter=everybody.filter, attributes=("uid",), limit=100))
        assert len(whole.entries) == 9
        assert whole.complete

    def test_a_server_that_gives_more_than_was_asked_for_is_cut(self, open_link):
        two = (entry(f"uid={name},{PEOPLE}", uid=name.encode()) for name in ("alice", "bob"))
        with saying(BOUND, message(*two, result(0x65, 0))) as server:
            link = open_link(server)
            assert link.bind(SERVICE, SERVICE_PASSWORD).ok
            found = link.search(Query(base=PEOPLE, filter="(uid=*)", attributes=("uid",), limit=1))

        assert ([one.text("uid") for one in found.entries], found.complete) == (["alice"], False)

    def test_an_alias_is_an_entry_and_leads_nowhere(self, service, slapd):
        """RFC 4512 s2.6: who may write among the people makes nobody of elsewhere one of them."""
        dn = f"uid=alias,{PEOPLE}"
        slapd.modify(
            f"dn: {dn}\nchangetype: add\nobjectClass: alias\nobjectClass: extensibleObject\nuid: alias\naliasedObjectName: {SERVICE}\n"
        )
        try:
            found = [service.search(Query(base=PEOPLE, filter=f"(uid={name})", attributes=("uid",))) for name in ("chancery", "alias")]
            (itself,) = service.search(Query(base=dn, attributes=("uid",), scope=Scope.BASE)).entries
        finally:
            slapd.modify(f"dn: {dn}\nchangetype: delete\n")

        assert [[one.dn for one in some.entries] for some in found] == [[], [dn]]
        assert itself.text("uid") == "alias"

    def test_pages_are_read_to_the_end_and_no_further_than_the_limit(self, service, slapd):
        names = [f"page{number:04}" for number in range(1_200)]
        classes = "objectClass: account\nobjectClass: simpleSecurityObject\nuserPassword: x"
        base = f"cn=sysaccounts,cn=etc,{SUFFIX}"
        slapd.modify("\n".join(f"dn: uid={name},{base}\nchangetype: add\n{classes}\nuid: {name}\n" for name in names))
        query = Query(base=base, filter="(uid=page*)", attributes=("uid",), limit=1_500)

        whole = service.search(query)
        cut = service.search(Query(base=base, filter=query.filter, attributes=("uid",), limit=700))

        slapd.modify("\n".join(f"dn: uid={name},{base}\nchangetype: delete\n" for name in names))
        assert sorted(found.text("uid") for found in whole.entries) == names
        assert whole.complete
        assert (len(cut.entries), cut.complete) == (700, False)

    def test_s087_an_escaped_value_is_a_value(self, service):
        for value in ("*", "alice)(uid=*", "alice\\2a", "a\0", "\\", "ü)(|"):
            from greatseal_ipa.names import filter_value

            found = service.search(Query(base=PEOPLE, filter=f"(uid={filter_value(value)})", attributes=("uid",)))
            assert list(found.entries) == [], value

    def test_what_may_not_be_read_is_refused_or_left_out(self, open_link, slapd):
        link = open_link(here(slapd))
        assert link.bind(ALICE, "alicepw").ok

        found = link.search(Query(base=f"cn=otp,{SUFFIX}", filter="(objectClass=ipatokenTOTP)", attributes=("ipatokenOTPkey",)))

        assert all("ipatokenotpkey" not in one.values for one in found.entries)

    def test_a_password_is_changed_by_who_has_it(self, open_link, slapd):
        link = open_link(here(slapd))
        assert link.bind(f"uid=erin,{PEOPLE}", "erinpw").ok

        assert not link.change_password(f"uid=erin,{PEOPLE}", "wrong", "another").ok
        assert link.change_password(f"uid=erin,{PEOPLE}", "erinpw", "ganz anders ü").ok

        again = open_link(here(slapd))
        assert again.bind(f"uid=erin,{PEOPLE}", "erinpw").code == 49
        assert again.bind(f"uid=erin,{PEOPLE}", "ganz anders ü").ok
        assert again.change_password(f"uid=erin,{PEOPLE}", "ganz anders ü", "erinpw").ok

    def test_nobody_there_is_down(self, open_link):
        with pytest.raises(Down, match="refused") as down:
            open_link(Server("ldap", "127.0.0.1", free_port()))

        assert not down.value.silent

    def test_a_host_that_is_no_name_is_down(self, open_link):
        with pytest.raises(Down):
            open_link(Server("ldap", f"{'x' * 70}.invalid", 389))

    def test_f14_a_server_that_hangs_is_left_in_time(self, open_link, slapd):
        link = open_link(here(slapd), SHORT)
        assert link.bind(SERVICE, SERVICE_PASSWORD).ok
        slapd.pause()
        try:
            with pytest.raises(Down) as down:
                link.search(alice())
        finally:
            slapd.resume()

        assert down.value.silent
        with pytest.raises(Down):
            link.search(alice())

    def test_f14_an_answer_in_drops_is_left_in_time(self, open_link):
        """Each octet is in time, the whole never."""
        whole = message(result(0x61, 0, _tlv(0x87, b"x" * 120)))
        stop = threading.Event()
        listener = socket.create_server(("127.0.0.1", 0))

        def drip() -> None:
            connection, _ = listener.accept()
            with closing(connection):
                for octet in whole.octets(connection.recv(65536)):
                    if stop.wait(0.1):
                        return
                    connection.sendall(bytes([octet]))

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        try:
            with pytest.raises(Down) as down:
                open_link(Server("ldap", "127.0.0.1", listener.getsockname()[1]), SHORT).bind(ALICE, "alicepw")
        finally:
            stop.set()
            listener.close()
            thread.join(10)

        assert down.value.silent

    def test_f14_an_answer_that_is_cut_is_no_answer(self, open_link):
        with saying(BOUND, message(entry(ALICE, uid=b"alice"), cut=4)) as server:
            link = open_link(server, SHORT)
            assert link.bind(SERVICE, SERVICE_PASSWORD).ok
            with pytest.raises(Down):
                link.search(alice())

    def test_f14_entries_without_an_end_are_no_answer(self, open_link):
        with saying(BOUND, message(entry(ALICE, uid=b"alice"))) as server:
            link = open_link(server, SHORT)
            assert link.bind(SERVICE, SERVICE_PASSWORD).ok
            with pytest.raises(Down):
                link.search(alice())

    def test_an_entry_from_elsewhere_is_refused(self, open_link):
        lie = message(entry(f"uid=alice,cn=staged,{SUFFIX}", uid=b"alice"), result(0x65, 0))
        with saying(BOUND, lie) as server:
            link = open_link(server)
            assert link.bind(SERVICE, SERVICE_PASSWORD).ok
            with pytest.raises(Unusable, match="outside"):
                link.search(alice())

    def test_s090_a_referral_is_not_followed(self, open_link, slapd):
        elsewhere = _tlv(0xA3, _tlv(4, f"ldap://127.0.0.1:{slapd.port}/{SUFFIX}".encode()))
        with saying(BOUND, message(result(0x65, 10, elsewhere))) as server:
            link = open_link(server)
            assert link.bind(SERVICE, SERVICE_PASSWORD).ok
            with pytest.raises(Unusable, match="referral"):
                link.search(alice())

    def test_s090_a_continuation_reference_is_left_out(self, open_link, slapd):
        reference = _tlv(0x73, _tlv(4, f"ldap://127.0.0.1:{slapd.port}/{SUFFIX}".encode()))
        with saying(BOUND, message(reference, entry(ALICE, uid=b"alice"), result(0x65, 0))) as server:
            link = open_link(server)
            assert link.bind(SERVICE, SERVICE_PASSWORD).ok
            assert [found.dn for found in link.search(alice()).entries] == [ALICE]

    def test_an_answer_that_is_far_too_long_is_refused(self, open_link):
        huge = message(entry(ALICE, member=b"x" * 300_000))
        with saying(BOUND, huge) as server:
            link = open_link(server, Terms(start_tls=False, max_answer=200_000))
            assert link.bind(SERVICE, SERVICE_PASSWORD).ok
            with pytest.raises(Oversized):
                link.search(alice())

    def test_f14_a_group_of_a_million_members_is_not_read(self, open_link):
        members = [f"uid=user{number:06},{PEOPLE}".encode() for number in range(1_000_000)]
        with saying(BOUND, message(entry(ALICE, member=members), result(0x65, 0))) as server:
            link = open_link(server)
            assert link.bind(SERVICE, SERVICE_PASSWORD).ok
            with pytest.raises(Oversized):
                link.search(alice("member"))

    @pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n" * 30, b"\x30\x03\x02\x01", b"\x00" * 64, b"\x30\x82"])
    def test_what_is_no_ldap_is_no_answer(self, open_link, answer):
        with saying(answer) as server, pytest.raises((Down, Unusable)):
            open_link(server, SHORT).bind(SERVICE, SERVICE_PASSWORD)

    def test_an_answer_to_another_question_is_no_answer(self, open_link):
        with saying(b"\x30\x0c\x02\x01\x77" + result(0x61, 0)) as server, pytest.raises((Down, Unusable)):
            open_link(server, SHORT).bind(SERVICE, SERVICE_PASSWORD)

    @pytest.mark.parametrize(("code", "problem"), [(51, Down), (52, Down), (3, Down), (1, Refused), (50, Refused)])
    def test_what_a_server_cannot_do_now_another_may(self, open_link, code, problem):
        with saying(BOUND, message(result(0x65, code))) as server:
            link = open_link(server)
            assert link.bind(SERVICE, SERVICE_PASSWORD).ok
            with pytest.raises(problem):
                link.search(alice())

    def test_s090_starttls_that_is_refused_or_stripped_leaves_nothing_said(self, open_link):
        refused = message(result(0x78, 2))
        with saying(refused) as server, pytest.raises(Down, match="StartTLS"):
            open_link(server, Terms(start_tls=True, seconds=0.5))

    def test_tls_and_starttls_with_the_right_certificate(self, open_link, secure):
        slapd, authority = secure
        terms = Terms(ca_cert_file=authority)

        for server in (Server("ldaps", "localhost", slapd.tls_port), Server("ldap", "localhost", slapd.port)):
            link = open_link(server, terms)
            assert link.bind(SERVICE, SERVICE_PASSWORD).ok
            assert len(link.search(alice()).entries) == 1

    def test_s090_a_wrong_certificate_ends_it_before_the_password(self, open_link, secure, tmp_path):
        slapd, authority = secure
        other = tmp_path / "other.pem"
        trustme.CA().cert_pem.write_to_path(other)

        for server in (Server("ldaps", "localhost", slapd.tls_port), Server("ldap", "localhost", slapd.port)):
            for ca in (other, None):
                with pytest.raises(Down, match="certificate"):
                    open_link(server, Terms(ca_cert_file=ca))
        for server in (Server("ldaps", "127.0.0.1", slapd.tls_port), Server("ldap", "127.0.0.1", slapd.port)):
            with pytest.raises(Down, match="ertificate"):
                open_link(server, Terms(ca_cert_file=authority))

    def test_a_socket_of_this_machine(self, open_link, slapd):
        link = open_link(Server("ldapi", "", 0, str(slapd.folder / "ldapi")))

        assert link.bind(MANAGER, MANAGER_PASSWORD).ok

    def test_a_connection_that_was_closed_says_so(self, open_link, slapd):
        link = open_link(here(slapd))
        link.close()

        with pytest.raises(Down):
            link.search(alice())
        link.close()


class TestLdap3(LibraryContract):
    def library(self) -> Library:
        return Ldap3()


@pytest.fixture(scope="module")
def secure(make_slapd, tmp_path_factory) -> Iterator[tuple[Slapd, Path]]:
    """A server whose certificate is for localhost alone."""
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    paths = folder / "ca.pem", folder / "server.pem", folder / "server.key"
    issued = authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(paths[0])
    issued.cert_chain_pems[0].write_to_path(paths[1])
    issued.private_key_pem.write_to_path(paths[2])
    with make_slapd(tls=paths) as slapd:
        yield slapd, paths[0]
