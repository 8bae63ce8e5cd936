"""The profiles: a registration that keeps to them, the switches that they mean, and what no switch of another part says."""

import msgspec

from greatseal.api.authorization import Ask, Extension, Granting, Terms, Wish
from greatseal.api.clients import Client, InvalidClientMetadata, Registration
from greatseal.api.problems import BadRequest, Unavailable
from greatseal.api.tokens import InvalidGrant
from greatseal_fapi.installation import Installation
from greatseal_fapi.registration import SIGNING, ProfileFields, check, completed, profile_of

S = msgspec.Struct  # nothing is kept


class Fapi(Extension[S]):
    """A client without a profile is left alone."""

    name = "fapi"
    order = -10  # its refusals are about the whole request, so they come before those about one parameter
    fields = ProfileFields

    def __init__(self, installation: Installation) -> None:
        self._installation = installation

    def check(self, registration: Registration) -> None:
        client = registration.client
        if (profile := profile_of(client)) is None:
            return
        check(client, profile)
        if lacks := self._installation.lacking(client, profile):
            raise InvalidClientMetadata(f"profile: this service cannot keep {profile} of FAPI 2.0: {lacks}")

    def complete(self, client: Client) -> Client:
        if (profile := profile_of(client)) is None:
            return client
        return msgspec.structs.replace(client, more=completed(client, profile, signs_answers=self._installation.signs_answers))

    def concerns(self, ask: Ask) -> bool:
        return profile_of(ask.client) is not None

    async def ask(self, ask: Ask) -> Wish[S] | None:
        if (profile := profile_of(ask.client)) is None:
            return None
        if lacks := self._installation.lacking(ask.client, profile):
            # The configuration was changed after the client was stored.
            raise Unavailable("this service cannot serve the client by its profile now", cause=f"{ask.client.client_id}: {lacks}")
        if ask.at in {"authorize", "par"}:
            _check_request(ask, signing=profile == SIGNING)
        return None

    def grant(self, kept: S | None, asked: S | None, terms: Terms, granting: Granting) -> Terms:  # noqa: ARG002  # the contract
        if profile_of(granting.client) is not None and granting.cnf is None:
            raise InvalidGrant("this client gets tokens that are bound to a key alone, and it proved none (FAPI 2.0 s5.3.2.1)")
        return terms


def _check_request(ask: Ask, *, signing: bool) -> None:
    if "redirect_uri" not in ask.given:
        raise BadRequest("redirect_uri is missing; this client names it in every request (FAPI 2.0 s5.3.2.2)")
    if signing and (ask.response_mode or "").rpartition(".")[2] != "jwt":
        raise BadRequest("response_mode: this client gets signed answers alone; ask for jwt (FAPI 2.0 Message Signing s5.4.1)")
