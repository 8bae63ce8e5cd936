"""A DNS server that does what a test says, over UDP and TCP on one port of loopback. Needs dnspython."""

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import dns.edns
import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import dns.rrset
import msgspec

__all__ = ["Answer", "Question", "ScriptedDns", "scripted_dns"]

Transport = Literal["udp", "tcp", "tls"]


class Question(msgspec.Struct, frozen=True):
    """What was asked. ``authentic``, ``unchecked`` and ``signed`` are the AD, CD and DO bits."""

    name: str
    kind: str
    transport: Transport
    authentic: bool
    unchecked: bool
    signed: bool


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer. ``values`` are zone-file texts, ``alias`` puts a chain of CNAMEs before them. ``reasons`` are extended errors (RFC 8914).

    ``lost`` sends nothing, ``truncated`` only a TC bit over UDP, ``other_id`` the whole answer under another message id,
    ``garbage`` bytes that are no message.
    """

    values: tuple[str, ...] = ()
    rcode: str = "NOERROR"
    alias: tuple[str, ...] = ()
    reasons: tuple[tuple[int, str], ...] = ()
    authentic: bool = False
    lost: bool = False
    truncated: bool = False
    other_id: bool = False
    garbage: bool = False


class ScriptedDns:
    """The script and what was asked. A question without script gets NXDOMAIN."""

    def __init__(self) -> None:
        self.port = 0
        self.questions: list[Question] = []
        self._script: dict[tuple[str, str], list[Answer]] = {}

    @property
    def address(self) -> str:
        """``127.0.0.1:port``, as the configuration wants it."""
        return f"127.0.0.1:{self.port}"

    def records(self, name: str, kind: str, *values: str) -> None:
        """Give these records from now on."""
        self.script(name, kind, Answer(values=values))

    def script(self, name: str, kind: str, *answers: Answer) -> None:
        """Give these answers one after the other; the last one stays."""
        self._script[name, kind] = list(answers)

    def reply(self, wire: bytes, transport: Transport) -> bytes | None:
        """The bytes that answer those of a query, or None for silence."""
        query = dns.message.from_wire(wire)
        name = query.question[0].name.to_text(omit_final_dot=True).lower()
        kind = dns.rdatatype.to_text(query.question[0].rdtype)
        self.questions.append(
            Question(
                name,
                kind,
                transport,
                authentic=bool(query.flags & dns.flags.AD),
                unchecked=bool(query.flags & dns.flags.CD),
                signed=bool(query.ednsflags & dns.flags.DO),
            )
        )
        script = self._script.get((name, kind)) or [Answer(rcode="NXDOMAIN")]
        answer = script.pop(0) if len(script) > 1 else script[0]
        if answer.lost:
            return None
        if answer.garbage:
            return b"\x00" + wire[:4]
        return _message(query, answer, kind, cut=answer.truncated and transport == "udp").to_wire(max_size=65535)


def _message(query: dns.message.Message, answer: Answer, kind: str, *, cut: bool) -> dns.message.Message:
    reply = dns.message.make_response(query, recursion_available=True)
    reply.set_rcode(dns.rcode.from_text(answer.rcode))
    if answer.reasons:
        reply.use_edns(0, options=[dns.edns.EDEOption(dns.edns.EDECode.make(code), text) for code, text in answer.reasons])
    if answer.authentic:
        reply.flags |= dns.flags.AD
    if answer.other_id:
        reply.id = query.id ^ 0x5555
    if cut:
        reply.flags |= dns.flags.TC
        return reply
    owner = query.question[0].name
    for alias in answer.alias:
        target = dns.name.from_text(alias)
        reply.answer.append(dns.rrset.from_text(owner, 0, "IN", "CNAME", target.to_text()))
        owner = target
    if answer.values:
        reply.answer.append(dns.rrset.from_text(owner, 0, "IN", kind, *answer.values))
    return reply


class _Udp(asyncio.DatagramProtocol):
    def __init__(self, server: ScriptedDns) -> None:
        self.server = server
        self.transport: Any = None  # each event loop has a class of its own

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str | int, ...]) -> None:
        reply = self.server.reply(data, "udp")
        if reply is not None:
            self.transport.sendto(reply, addr)


@asynccontextmanager
async def scripted_dns(tls: ssl.SSLContext | None = None, port: int = 0) -> AsyncIterator[ScriptedDns]:
    """A running :class:`ScriptedDns`; with ``tls`` it speaks DNS over TLS alone. Port 0 is a free one."""
    server = ScriptedDns()
    stream: Transport = "tls" if tls else "tcp"
    connections: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        try:
            while True:
                (length,) = struct.unpack("!H", await reader.readexactly(2))
                reply = server.reply(await reader.readexactly(length), stream)
                if reply is not None:
                    writer.write(struct.pack("!H", len(reply)) + reply)
        except (EOFError, OSError, asyncio.CancelledError):
            pass  # the client is done
        finally:
            writer.close()

    listener = await asyncio.start_server(handle, "127.0.0.1", port, ssl=tls)
    server.port = listener.sockets[0].getsockname()[1]
    datagrams, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: _Udp(server), ("127.0.0.1", server.port))
    try:
        yield server
    finally:
        datagrams.close()
        listener.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections)
