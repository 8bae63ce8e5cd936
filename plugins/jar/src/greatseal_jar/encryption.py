"""Encrypted answers (RFC 7516): ID tokens, UserInfo, introspection and authorization responses, for clients that registered so."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from greatseal.api.authorization import Ask, Extension, Wish
from greatseal.api.clients import Client, InvalidClientMetadata, Registration
from greatseal.api.problems import Unavailable
from greatseal.jose.jwk import public_members
from greatseal.jose.keysets import encryption_key
from greatseal.net import RemoteKeys

Alg = Literal["RSA-OAEP-256", "ECDH-ES", "ECDH-ES+A128KW", "ECDH-ES+A256KW"]
Enc = Literal["A128CBC-HS256", "A256CBC-HS512", "A128GCM", "A256GCM"]
Kind = Literal["authorization", "id_token", "userinfo", "introspection"]
ALGORITHMS: tuple[Alg, ...] = ("RSA-OAEP-256", "ECDH-ES", "ECDH-ES+A128KW", "ECDH-ES+A256KW")
ENCRYPTIONS: tuple[Enc, ...] = ("A128CBC-HS256", "A256CBC-HS512", "A128GCM", "A256GCM")
RULE = "(OpenID Connect Registration s2)"
KINDS: tuple[Kind, ...] = ("authorization", "id_token", "userinfo", "introspection")


class EncryptionFields(msgspec.Struct, frozen=True, kw_only=True):
    """Members of a client: OpenID Connect Registration s2, JARM s3, RFC 9701 s6. ``enc`` is A128CBC-HS256 where only ``alg`` is given."""

    authorization_encrypted_response_alg: Alg | None = None
    authorization_encrypted_response_enc: Enc | None = None
    id_token_encrypted_response_alg: Alg | None = None
    id_token_encrypted_response_enc: Enc | None = None
    userinfo_encrypted_response_alg: Alg | None = None
    userinfo_encrypted_response_enc: Enc | None = None
    introspection_encrypted_response_alg: Alg | None = None
    introspection_encrypted_response_enc: Enc | None = None


class EncryptedAnswers(Extension[msgspec.Struct]):
    """What is signed for a client is encrypted for it, where it registered an algorithm for that kind of answer."""

    name = "jwe"
    fields = EncryptionFields

    def __init__(self, keys: RemoteKeys) -> None:
        self._keys = keys

    def check(self, registration: Registration) -> None:
        client = registration.client
        for kind in KINDS:
            alg, enc = (client.more.get(f"{kind}_encrypted_response_{what}") for what in ("alg", "enc"))
            if alg is None:
                if enc is not None:
                    raise InvalidClientMetadata(f"{kind}_encrypted_response_enc: needs {kind}_encrypted_response_alg {RULE}")
                continue
            if client.jwks_uri is None and encryption_key(client.jwks or {}, alg) is None:
                raise InvalidClientMetadata(f"{kind}_encrypted_response_alg: needs jwks_uri, or jwks with a key for {alg} {RULE}")
        if "userinfo_encrypted_response_alg" in client.more and "userinfo_signed_response_alg" not in client.more:
            raise InvalidClientMetadata(
                f"userinfo_encrypted_response_alg: needs userinfo_signed_response_alg, for what is encrypted is signed {RULE}"
            )

    def concerns(self, ask: Ask) -> bool:
        return _answer_of(ask) in ask.client.more

    async def ask(self, ask: Ask) -> Wish[msgspec.Struct] | None:
        """The key is had before anything is consumed: what is committed cannot be taken back when it is gone."""
        await self._key(ask.client, ask.client.more[_answer_of(ask)])
        return None

    async def seal(self, kind: Kind, client: Client, token: str) -> str:
        alg = client.more.get(f"{kind}_encrypted_response_alg")
        if alg is None:
            return token
        enc = client.more.get(f"{kind}_encrypted_response_enc", ENCRYPTIONS[0])
        return encrypted(token, await self._key(client, alg), alg=alg, enc=enc)

    async def _key(self, client: Client, alg: str) -> Mapping[str, Any]:
        key = encryption_key(await self._keys.set_of(client), alg)
        if key is None:
            raise Unavailable("the key that would encrypt the answer cannot be had now", cause=f"{client.client_id}: no key for {alg}")
        return key


def _answer_of(ask: Ask) -> str:
    """The member of the client that encrypts what this request gives."""
    return f"{'id_token' if ask.at == 'token' else 'authorization'}_encrypted_response_alg"


def encrypted(token: str, key: Mapping[str, Any], *, alg: str, enc: str) -> str:
    """A signed JWT in a JWE (RFC 7519 s5.2), compact."""
    from jwcrypto import jwe, jwk  # 20 ms, and most services encrypt nothing

    header = {"alg": alg, "enc": enc, "cty": "JWT", **({"kid": key["kid"]} if isinstance(key.get("kid"), str) else {})}
    whole = jwe.JWE(token.encode(), msgspec.json.encode(header).decode(), algs=[alg, enc])
    whole.add_recipient(jwk.JWK(**public_members(key)))
    return str(whole.serialize(compact=True))
