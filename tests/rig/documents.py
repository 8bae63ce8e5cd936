"""A web server of somebody else, over TLS on loopback: metadata documents of clients, and key sets."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trustme


class Documents:
    """``pages`` by path: JSON, the bytes of a body, or a whole answer that begins with ``HTTP/``. ``asked`` are the paths, in order."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.port = 0
        self.pages: dict[str, Any] = {}
        self.headers = ""
        self.asked: list[str] = []

    def url(self, path: str) -> str:
        return f"https://{self.name}:{self.port}{path}"

    def answer(self, path: str) -> bytes:
        page = self.pages.get(path)
        if page is None:
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        if isinstance(page, bytes) and page.startswith(b"HTTP/"):
            return page
        body = page if isinstance(page, bytes) else json.dumps(page).encode()
        return f"HTTP/1.1 200 OK\r\n{self.headers}Content-Length: {len(body)}\r\n\r\n".encode() + body

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
            self.asked.append(path)
            writer.write(self.answer(path))
            await writer.drain()
        except (OSError, EOFError):
            pass  # the caller left
        finally:
            writer.close()


@asynccontextmanager
async def documents(folder: Path, monkeypatch: Any, name: str = "client.example") -> AsyncIterator[Documents]:
    """The server, whose certificate this process believes from now on."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "roots.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "roots.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    there = Documents(name)
    async with await asyncio.start_server(there.serve, "127.0.0.1", 0, ssl=context) as server:
        there.port = server.sockets[0].getsockname()[1]
        yield there
