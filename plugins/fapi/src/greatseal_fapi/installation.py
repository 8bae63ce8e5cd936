"""What a service lacks for the profiles: told by check-config and doctor, and a reason to refuse those whom it concerns."""

from collections.abc import Iterator, Sequence

from greatseal.api.authorization import Extension
from greatseal.api.clients import Client, ClientAuthMethod
from greatseal.api.tokens import TokenBinding
from greatseal.host import Host
from greatseal_fapi.registration import BINDINGS, METHODS, SIGNING, Profile, binding_of
from greatseal_fapi.settings import Lifetimes, Way

CODE_SECONDS = 60
"""Security Profile s5.3.2.1."""
PUSHED_SECONDS = 599
"""Security Profile s5.3.2.2: less than 600."""
PLUGINS = {"jkt": "dpop", "x5t#S256": "client-auth-mtls"}


class Installation:
    """Looks at the settings and at what the enabled plugins bring; complete from the lifespans on."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @property
    def signs_answers(self) -> bool:
        """Whether a client may ask for a signed answer (JARM)."""
        return any("jwt" in one.response_modes for one in self._host.components(Extension).values())

    @property
    def _opens_requests(self) -> bool:
        return any(one.opens == "request" for one in self._host.components(Extension).values())

    def lacking(self, client: Client, profile: Profile) -> str | None:
        """The first reason why this service cannot keep the profile for the client; None for none."""
        confirmation = BINDINGS[binding_of(client)]
        if confirmation not in self._host.components(TokenBinding):
            return f"no enabled plugin binds tokens to {confirmation}; enable {PLUGINS[confirmation]}"
        if profile == SIGNING and (lacks := self._for_signing()):
            return lacks
        return next(self._settings(), None)

    def notes(self) -> Sequence[str]:
        """What stands in the way of one of the profiles, one line each with its cure."""
        notes: list[str] = []
        bindings, methods = self._host.components(TokenBinding), self._host.components(ClientAuthMethod)
        if not set(PLUGINS) & bindings.keys():
            notes.append("no client can have a profile: no enabled plugin binds tokens to keys; enable dpop or client-auth-mtls")
        if not set(METHODS) & methods.keys():
            notes.append(f"no client can have a profile: it needs {' or '.join(METHODS)}; enable client-auth-jwt or client-auth-mtls")
        if lacks := self._for_signing():
            notes.append(f"no client can have the profile {SIGNING}: {lacks}")
        notes += [f"no client can have a profile: {lacks}" for lacks in self._settings()]
        if self._host.base_url.startswith("http://"):
            notes.append("[server] base_url is no https URL: clients with a profile need TLS 1.2 or newer (s5.2.1)")
        elif self._host.settings(Way).tls_cert_file is None:
            notes.append("the TLS is that of a proxy: TLS 1.2 or newer, and for 1.2 only the ciphers that BCP 195 recommends (s5.2.2)")
        return [f"FAPI 2.0: {note}" for note in notes]

    def _for_signing(self) -> str | None:
        if self._opens_requests and self.signs_answers:
            return None
        return "no enabled plugin reads signed requests and signs answers; enable jar"

    def _settings(self) -> Iterator[str]:
        lifetimes = self._host.settings(Lifetimes)
        if lifetimes.code_ttl > CODE_SECONDS:
            yield f"[tokens] code_ttl is {lifetimes.code_ttl}; {CODE_SECONDS} is the most (s5.3.2.1)"
        if lifetimes.par_ttl > PUSHED_SECONDS:
            yield f"[tokens] par_ttl is {lifetimes.par_ttl}; {PUSHED_SECONDS} is the most (s5.3.2.2)"
