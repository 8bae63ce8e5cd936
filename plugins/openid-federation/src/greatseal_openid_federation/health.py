"""What doctor looks at: the trust anchors, whether superiors vouch for this service, and its trust marks."""

from greatseal.api.declarations import Check, CheckResult
from greatseal.api.moments import SECOND
from greatseal.host import Host
from greatseal_openid_federation.keys import EntityKeys
from greatseal_openid_federation.marks import TrustMarks
from greatseal_openid_federation.resolution import Broken, Federation, Walk
from greatseal_openid_federation.settings import EntitySettings
from greatseal_openid_federation.statements import signed_by


class FederationHealth:
    """For doctor alone: nobody who asks /readyz makes requests to others."""

    def __init__(self, host: Host, federation: Federation, keys: EntityKeys, marks: TrustMarks) -> None:
        self._host = host
        self._federation = federation
        self._keys = keys
        self._marks = marks
        self._settings = host.settings(EntitySettings)

    def checks(self) -> list[Check]:
        """Those that there is something for."""
        found = []
        if self._settings.trust_anchors:
            found.append(Check(name="trust-anchors", run=self.anchors, ready=False))
        if self._settings.authority_hints:
            found.append(Check(name="federation-superiors", run=self.superiors, ready=False))
        if self._settings.trust_marks:
            found.append(Check(name="trust-marks", run=self.trust_marks, ready=False))
        return found

    async def anchors(self) -> CheckResult:
        """Whether each answers, with a configuration that its configured keys signed."""
        wrong = []
        for name, keys in self._federation.anchors.items():
            try:
                signed_by(await self._walk().configuration(name), keys)
            except Broken as broken:
                wrong.append(f"{broken.entity}: {broken.words}")
            except ValueError as error:
                wrong.append(f"{name}: {error}")
        if wrong:
            cure = "compare its jwks with what the federation's operator publishes"
            return CheckResult(ok=False, detail=f"a trust anchor cannot be used: {cure}", cause="; ".join(wrong))
        return CheckResult(ok=True, detail="every trust anchor answers, and its configured keys sign for it")

    async def superiors(self) -> CheckResult:
        """Whether each vouches for every federation key of this service."""
        wrong = []
        for name in self._settings.authority_hints:
            try:
                walk = self._walk()
                said = await walk.subordinate(await walk.configuration(name), self._host.issuer)
            except Broken as broken:
                wrong.append(f"{broken.entity}: {broken.words}")
                continue
            known = {key.kid for key in said.keys}
            if unknown := [key.info.kid for key in self._keys.all() if key.info.kid not in known]:
                wrong.append(f"{name} does not know the key {unknown[0]}: give it what `greatseal ctl entity-keys jwks` shows")
        if wrong:
            return CheckResult(ok=False, detail="a superior does not vouch for this service as it is", cause="; ".join(wrong))
        return CheckResult(ok=True, detail="every superior vouches for the federation keys of this service")

    async def trust_marks(self) -> CheckResult:
        """Whether each file holds a good one."""
        wrong = await self._marks.problems()
        return CheckResult(ok=not wrong, detail="a trust mark is left out" if wrong else "trust marks are good", cause="; ".join(wrong))

    def _walk(self) -> Walk:
        return Walk(self._federation.get, self._federation.anchors, self._host.clock.now() // SECOND)
