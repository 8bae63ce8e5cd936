"""Ten thousand mutated requests: no fault of the server."""

import json
import random
from collections import Counter
from typing import Any

from rig.acme import AcmeClient, acme_site, b64url, compact

COUNT = 10_000
ODD: tuple[Any, ...] = (
    None, True, 0, -1, 2**63, 10**30, 1e308, "", "x", "é", "\u202e", "\x00", "\ud800", [], {}, [[]], {"a": {}}, "A" * 2_000, ["a"] * 200,
    "none", "ES256", "../..", "https://evil.example/", "xn--", "*.", "*.*.x", "::1", "1.2.3.4", "9999-99-99T99:99:99Z",
)  # fmt: skip


class Mutator:
    """Changes a good request in one of many ways, reproducibly."""

    def __init__(self, client: AcmeClient, urls: list[str]) -> None:
        self.random = random.Random(8555)
        self.client = client
        self.urls = urls

    async def request(self) -> tuple[str, bytes]:
        url = self.random.choice(self.urls)
        header = await self.client.header(url)
        payload: Any = self.random.choice([None, {}, self._order(), {"csr": "AAAA"}, {"contact": ["mailto:a@example.org"]}])
        change = self.random.choice([self._member, self._payload, self._text, self._envelope, self._bytes, self._nesting])
        return url, change(header, payload)

    def _order(self) -> dict[str, Any]:
        return {"identifiers": [{"type": "dns", "value": "a.localhost"}], "notBefore": "2026-01-01T00:00:00Z", "profile": "default"}

    def _signed(self, header: Any, payload: Any) -> dict[str, str]:
        return self.client.signed(header, payload)

    def _member(self, header: dict[str, Any], payload: Any) -> bytes:
        name = self.random.choice(["alg", "kid", "jwk", "nonce", "url", "crit", "b64", "typ", "x5c"])
        return compact(self._signed({**header, name: self.random.choice(ODD)}, payload))

    def _payload(self, header: dict[str, Any], _payload: Any) -> bytes:
        body = self._order()
        place = self.random.choice([body, body["identifiers"][0]])
        place[self.random.choice(["type", "value", "identifiers", "notBefore", "notAfter", "profile", "csr", "contact", "status"])] = (
            self.random.choice(ODD)
        )
        return compact(self._signed(header, body))

    def _text(self, header: dict[str, Any], payload: Any) -> bytes:
        """A signed payload that is no good JSON."""
        raw = bytearray(compact(payload))
        for _ in range(self.random.randint(1, 4)):
            raw.insert(self.random.randrange(len(raw) + 1), self.random.choice(b'{}[]",:\\\x00\xff\xef0e-. '))
        return compact(self._signed(header, bytes(raw)))

    def _envelope(self, header: dict[str, Any], payload: Any) -> bytes:
        envelope: dict[str, Any] = self._signed(header, payload)
        name = self.random.choice([*envelope, "header", "signatures"])
        if name in envelope and self.random.random() < 0.3:
            del envelope[name]
        else:
            envelope[name] = self.random.choice([*ODD, envelope.get(name, "") + "=", b64url(self.random.randbytes(64))])
        return compact(envelope)

    def _bytes(self, header: dict[str, Any], payload: Any) -> bytes:
        raw = bytearray(compact(self._signed(header, payload)))
        for _ in range(self.random.randint(1, 8)):
            at = self.random.randrange(len(raw))
            match self.random.randrange(4):
                case 0:
                    raw[at] = self.random.randrange(256)
                case 1:
                    del raw[at : at + self.random.randint(1, 20)]
                case 2:
                    raw[at:at] = raw[at : at + self.random.randint(1, 50)]
                case 3:
                    raw[at:at] = self.random.randbytes(3)
            if not raw:
                break
        return bytes(raw)

    def _nesting(self, header: dict[str, Any], _payload: Any) -> bytes:
        depth = self.random.choice([10, 40, 1_000, 8_000])
        opening = self.random.choice([b"[", b'{"a":'])
        closing = b"]" if opening == b"[" else b"}"
        deep = opening * depth + b"1" + closing * self.random.choice([0, depth])
        return deep if self.random.random() < 0.5 else compact(self._signed(header, deep))


async def test_s118_ten_thousand_mutated_requests(start_service):
    async with acme_site(start_service) as site:
        client = await site.client()
        order = (await client.order("a.localhost")).json
        challenge = await client.challenge(order["authorizations"][0])
        urls = [client.kid, *client.directory.values(), order["finalize"], challenge["url"], *order["authorizations"]]
        mutator = Mutator(client, [url for url in urls if isinstance(url, str) and url.startswith(site.url)])
        found: Counter[int] = Counter()
        for _ in range(COUNT):
            url, body = await mutator.request()
            answer = await client.send(url, body)
            found[answer.status] += 1
            assert answer.status < 500, (url, body)
            if answer.body and answer.status >= 400:
                json.loads(answer.body)
        still = await client.order("b.localhost")

    assert found[400] > COUNT / 2
    assert still.status == 201
