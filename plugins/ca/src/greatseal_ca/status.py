"""What relying parties fetch: revocation lists, OCSP answers, the certificate of the issuing CA. And the work that keeps them fresh."""

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from greatseal.api.declarations import Job
from greatseal.api.http import Call, Reply, Route
from greatseal.api.moments import SECOND
from greatseal.api.problems import Internal, NotFound, Unavailable
from greatseal.host import Host
from greatseal_ca.algorithms import signature_algorithm
from greatseal_ca.authorities import Authorities, Issuing
from greatseal_ca.build import subject_of
from greatseal_ca.delegation import Delegation
from greatseal_ca.generations import OF_ROOT
from greatseal_ca.lists import Lists, Signing
from greatseal_ca.pointers import FIRST
from greatseal_ca.responder import REQUEST, Delegated, Responder

CERTIFICATE = "application/pkix-cert"
MINUTE, HOUR = 60.0, 3600.0


class StatusService:
    """Revocation lists and OCSP of the CAs that sign themselves."""

    def __init__(self, host: Host, authorities: Authorities, lists: Lists) -> None:
        self._host = host
        self._authorities = authorities
        self._lists = lists
        self._responder = Responder(host)
        self._delegation = Delegation(host)
        self._delegated: dict[tuple[str, str], Delegated] = {}

    async def open(self) -> None:
        """Make what is to be served: before anybody can ask. A key that signed before tells of its certificates until they have expired."""
        for ca_id in self._authorities.ids:
            now, *former = self._authorities.by_key(ca_id)
            await self._lists.open(ca_id, signing_of(now), self._root(now))
            for issuing in former:
                await self._lists.keep(ca_id, signing_of(issuing))
            for issuing in (now, *former):
                await self._delegate(issuing)

    def jobs(self) -> list[Job]:
        """In time, and behind what was not published."""
        return [
            Job(name="ca-lists", every=MINUTE, run=self._lists.run, jitter=5),
            Job(name="ca-lists-tidy", every=HOUR, run=self._lists.tidy, jitter=60),
            Job(name="ca-ocsp-signers", every=HOUR, run=self.renew, jitter=60),
        ]

    async def renew(self) -> None:
        """Signers of answers whose life is half over."""
        for ca_id in self._authorities.ids:
            for issuing in self._authorities.by_key(ca_id):
                delegated = self._delegated.get((ca_id, issuing.signer.info.kid))
                if delegated and self._delegation.is_due(delegated):
                    await self._delegate(issuing)
            await self._delegation.drop_expired(ca_id)

    def routes(self) -> list[Route]:
        """Without an id the default CA is meant."""
        return [
            Route(method, f"/ca/{of}{path}", handler, style="acme", content_types=kinds, cors=not kinds, summary=f"{summary} of {whose}.")
            for method, path, handler, kinds, summary in (
                ("GET", "cert", self.certificate, (), "The first certificate, in DER,"),
                ("GET", "cert/{number}", self.certificate, (), "The certificate of another key, in DER,"),
                ("GET", "crl", self.list, (), "The first revocation list"),
                ("GET", "crl/{shard}", self.list, (), "Another revocation list"),
                ("GET", "root.crl", self.root_list, (), "The revocation list of the root"),
                ("POST", "ocsp", self.ocsp, (REQUEST,), "The status (OCSP) of certificates"),
                ("GET", "ocsp/{request**}", self.ocsp_by_path, (REQUEST,), "The status (OCSP) of certificates, asked in base64,"),
            )
            for of, whose in (("", "the default CA"), ("{ca_id}/", "a CA"))
        ]

    async def certificate(self, call: Call) -> Reply:
        """An issuing CA, to which the certificates point that its key signed (RFC 5280 s4.2.2.1)."""
        number = call.path.get("number", str(FIRST))
        keys = self._authorities.by_key(self._issuing(call).ca_id)
        found = next((one for one in keys if str(one.number) == number), None)
        if found is None:
            raise NotFound("this CA has no certificate of that number")
        der = found.certificate.public_bytes(Encoding.DER)
        return Reply(body=der, content_type=CERTIFICATE, headers=(("Cache-Control", "public, max-age=3600"),))

    async def list(self, call: Call) -> Reply:
        """GET .../crl."""
        number = call.path.get("shard", str(FIRST))
        return await self._list(call, int(number) if number.isascii() and number.isdecimal() and len(number) < 10 else -1)

    async def root_list(self, call: Call) -> Reply:
        """GET .../root.crl: where the root was made here."""
        return await self._list(call, OF_ROOT)

    async def ocsp(self, call: Call) -> Reply:
        """POST .../ocsp."""
        return await self._responder.post(call, self._ca_id(call))

    async def ocsp_by_path(self, call: Call) -> Reply:
        """GET .../ocsp/{base64}."""
        return await self._responder.get(self._ca_id(call), call.path["request"])

    async def _list(self, call: Call, shard: int) -> Reply:
        served = await self._lists.find(self._issuing(call).ca_id, shard)
        if served is None:
            raise NotFound("this CA has no revocation list of that number")
        return served.answer(call, self._host.clock.now())

    async def _delegate(self, issuing: Issuing) -> None:
        ca_id, signing = issuing.ca_id, signing_of(issuing)
        if issuing.bounds.end < self._host.clock.now() + 60 * SECOND:
            return  # nothing can be signed under a CA that has ended
        try:
            self._delegated[ca_id, signing.signer.info.kid] = delegated = await self._delegation.signer(ca_id, signing)
        except (Unavailable, Internal) as problem:
            self._host.log.warning("no signer of OCSP answers was made", ca=ca_id, reason=problem.cause)
            return
        self._responder.serve(ca_id, signing, delegated)

    def _root(self, issuing: Issuing) -> Signing | None:
        """The root, where its key is here."""
        root = issuing.root
        spki = root.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        ring = self._host.keys.ring(f"ca:{issuing.ca_id}:root").all()
        for signer in (issuing.signer, *ring):
            if signer.info.spki == spki:
                algorithm = signature_algorithm(signer.info.algorithm, issuing.hash_alg)
                return Signing(signer=signer, certificate=root, subject=subject_of(root), algorithm=algorithm)
        return None

    def _ca_id(self, call: Call) -> str:
        return call.path.get("ca_id", self._authorities.default_id)

    def _issuing(self, call: Call) -> Issuing:
        issuing = self._authorities.issuing.get(self._ca_id(call))
        if issuing is None:
            raise NotFound("there is no such CA")
        return issuing


def signing_of(issuing: Issuing) -> Signing:
    """An issuing CA as the signer of lists."""
    return Signing(signer=issuing.signer, certificate=issuing.certificate, subject=issuing.subject, algorithm=issuing.algorithm)
