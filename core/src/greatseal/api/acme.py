"""What validators and account bindings share with the ACME service (RFC 8555)."""

import builtins
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar, Literal, Protocol

import msgspec

from greatseal.api.declarations import Step
from greatseal.api.problems import BadRequest, Problem
from greatseal.api.store import Tx

RESERVED_CA_IDS = frozenset(
    (
        "account", "accounts", "authz", "cert", "chain", "chall", "crl", "cross-certs", "delegation", "delegations", "directory", "eab",
        "email-webhook", "key-change", "mtc", "new-account", "new-authz", "new-nonce", "new-order", "ocsp", "order", "orders",
        "renewal-info", "revoke-cert", "root",
    )
)  # fmt: skip
"""What stands below /acme/ and /ca/ in the paths of the default CA, and is the id of no CA therefore."""
MOST_GRANTS, LONGEST_GRANT = 1000, 255


def grants_of(profiles: Sequence[str] | None) -> tuple[str, ...] | None:
    """Profile grants as they are stored, None for none. Raises BadRequest."""
    if not profiles:
        return None
    if len(profiles) > MOST_GRANTS or not all(0 < len(one) <= LONGEST_GRANT and one.isprintable() for one in profiles):
        raise BadRequest(f"profile_grants: expected null or at most {MOST_GRANTS} ids of profiles, of 1 to {LONGEST_GRANT} characters each")
    return tuple(profiles)


class Identifier(msgspec.Struct, frozen=True, order=True):
    """What an order names (RFC 8555 s9.7.7): ``type`` is ``dns``, ``ip``, ``email`` or one that a plugin brings
    (:class:`~greatseal.api.issuance.IdentifierType`); ``value`` is in its canonical form."""

    type: str
    value: str

    @property
    def wildcard(self) -> bool:
        """Whether it is ``*.`` and a base domain."""
        return self.type == "dns" and self.value.startswith("*.")

    @property
    def base(self) -> str:
        """The value without a leading ``*.``."""
        return self.value.removeprefix("*.") if self.type == "dns" else self.value


class AccountView(msgspec.Struct, frozen=True, kw_only=True):
    """An ACME account as others see it. ``profile_grants`` None means no restriction was set."""

    id: str
    url: str
    status: Literal["valid", "deactivated", "revoked"]
    thumbprint: str
    profile_grants: tuple[str, ...] | None = None
    kerberos_principal: str | None = None


class Challenge(msgspec.Struct, frozen=True, kw_only=True):
    """A challenge of an authorization. ``identifier`` has no wildcard prefix; ``wildcard`` tells that it had one, or that the names below
    it are to be proven with it (RFC 9444).

    ``kept`` is what the validator's ``create`` or ``accept`` returned last. ``expires`` is the authorization's, microseconds.
    """

    id: str
    type: str
    status: Literal["pending", "processing", "valid", "invalid"]
    token: str
    identifier: Identifier
    wildcard: bool
    authorization_id: str
    account_id: str
    account_url: str
    expires: int
    kept: Any = None


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One validation. The account was valid when it began; ``key_authorization`` was computed then (RFC 8555 s8.1)."""

    challenge: Challenge
    key_authorization: str
    account: AccountView

    @property
    def identifier(self) -> Identifier:
        """What is to be proven, without wildcard prefix."""
        return self.challenge.identifier

    @property
    def token(self) -> str:
        """The challenge's token (RFC 8555 s8.1)."""
        return self.challenge.token

    @property
    def kept(self) -> Any:
        """What the validator's ``create`` or ``accept`` returned last."""
        return self.challenge.kept


class Verdict(Enum):
    """What a validation found, where it did not raise."""

    VALID = "valid"
    WAIT = "wait"


VALID: Literal[Verdict.VALID] = Verdict.VALID
"""The identifier is proven."""
WAIT: Literal[Verdict.WAIT] = Verdict.WAIT
"""Somebody will call :meth:`Challenges.decide` later; the challenge stays processing."""


class ChallengeValidator(ABC):
    """One challenge type. The kernel adds deadline and error translation around it: an OSError becomes
    :class:`~greatseal.api.problems.Unreachable`, running out of ``deadline`` too, an unexpected exception
    :class:`~greatseal.api.problems.Internal`."""

    type: ClassVar[str]
    """The registered name, for example ``http-01``."""
    identifier_types: ClassVar[frozenset[str]]
    wildcard: ClassVar[bool] = False
    """Whether it can prove a wildcard name."""
    kept_as: ClassVar[builtins.type[msgspec.Struct] | None] = None
    """The Struct that ``create`` and ``accept`` return, where they return one."""
    deadline: ClassVar[float] = 30.0
    """Seconds that one ``validate`` may take."""
    reusable: ClassVar[bool] = True
    """Whether orders may rest on what was proven before them, until the authorization ends; else each order has it proven anew."""

    def offers(self, identifier: Identifier) -> bool:
        """Whether a new authorization for ``identifier``, whose type fits, lists this challenge. Called at order creation."""
        return True

    def create(self, tx: Tx, challenge: Challenge) -> msgspec.Struct | None:
        """In the transaction that makes the authorization. What it returns is kept with the challenge."""
        return None

    def members(self, challenge: Challenge) -> dict[str, object]:
        """The members of the challenge object besides type, url, status, validated and error (RFC 8555 s8)."""
        return {"token": challenge.token}

    def accept(self, tx: Tx, challenge: Challenge, payload: Mapping[str, object]) -> msgspec.Struct | None:
        """In the transaction that moves pending to processing. What it returns replaces what was kept.

        Raising a Problem refuses the response: the challenge is still pending.
        """
        return None

    async def start(self, attempt: Attempt) -> None:
        """After that commit, before the reply, at most once: not again after a crash. A Problem makes the challenge invalid.

        It has limits of its own; ``deadline`` is that of :meth:`validate`.
        """

    @abstractmethod
    async def validate(self, attempt: Attempt) -> Verdict:
        """After the reply, at least once: again after a crash. Raises a Problem that says what was looked up and what was found."""


class Challenges(Protocol):
    """The ACME service's challenges, for plugins that end a WAIT."""

    def view(self, tx: Tx, id: str) -> Challenge | None:
        """The challenge of that id."""

    def decide(self, tx: Tx, id: str, problem: Problem | None) -> bool:
        """Make a processing challenge valid (None) or invalid, with authorization and orders, in this transaction.

        False when it was not processing any more: exactly one decision wins. The rows belong to the node that made the order, so the
        transaction function is an operation whose owner is ``handles.owner_of_id(id)``.
        """

    def keep(self, tx: Tx, id: str, kept: msgspec.Struct) -> bool:
        """Replace what is kept with a pending challenge, in this transaction; ``accept`` finds it. False when it is not pending.

        For what comes before the client answered. The rows belong to the node that made the order, as with :meth:`decide`.
        """


class Accounts(Protocol):
    """The ACME service's accounts, for plugins that change what belongs to them."""

    async def find(self, id: str) -> AccountView | None:
        """The account of that id, from the cache."""

    def grant(self, tx: Tx, id: str, profile_grants: tuple[str, ...] | None) -> bool:
        """Set the profile grants; False when there is no valid account of that id."""


class Examiner(Protocol):
    """Says why a certificate would be refused, before a client is blamed."""

    async def examine(self, value: str, *, profile: str | None = None, account_id: str | None = None) -> Sequence[Step]:
        """Every step of an order for ``value``, up to the one that ends it: identifier, profile, each challenge type that is offered, and
        the checks of a finalization. The challenge types are asked as for an order; at least one that passes is needed, and all others.

        ``value`` is a name, an address, a mail address or ``type:value``; ``profile`` None is the default one; ``account_id`` None is an
        account without grants. Writes nothing.
        """


class EabKeyView(msgspec.Struct, frozen=True, kw_only=True):
    """A key of external account binding as others see it. ``made_at`` (microseconds) tells it from one that was made later under the same
    id; ``principal`` is whose it is, where that is known."""

    made_at: int
    principal: str | None = None


class EabKeys(Protocol):
    """Keys of external account binding, to prove who asks. Nothing here uses one up, and one that bound an account proves as before."""

    def find(self, tx: Tx, kid: str) -> EabKeyView | None:
        """The key of that id."""

    def verifies(self, tx: Tx, kid: str, data: bytes, mac: bytes) -> bool:
        """Whether ``mac`` is the HMAC-SHA-256 of ``data`` by the key of that id, in constant time; False where there is none.

        The same key signs bindings: have ``data`` contain a line feed, which the signing input of a JWS never does.
        """


class BindingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A new account that may carry a binding: the outer request's ``url``, the account key, and the member's value or None."""

    url: str
    jwk: Mapping[str, Any]
    thumbprint: str
    value: Any = None


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """What a verified binding gives to the account. ``echo`` is shown in the account object."""

    echo: Any
    profile_grants: tuple[str, ...] | None = None
    kerberos_principal: str | None = None


class AccountBinding(ABC):
    """A member of newAccount that binds the account to something outside, for example externalAccountBinding (RFC 8555 s7.3.4)."""

    member: ClassVar[str]

    @property
    def required(self) -> bool:
        """Whether newAccount without the member is refused (externalAccountRequired)."""
        return False

    def owner(self, request: BindingRequest) -> str | None:
        """The label of the node that alone may consume what ``request`` carries, so the account is made there; None for any node.

        Called before the transaction, with input that nobody verified; what it cannot read is None (:meth:`bind` will refuse it).
        """
        return None

    @abstractmethod
    def bind(self, tx: Tx, request: BindingRequest) -> Binding:
        """In the transaction that makes the account; consumes what is single use. Raises Refuse with a Problem and its events."""


class Unauthorized(Problem):
    """The account is not allowed to do this (RFC 8555 s6.7). The status is 401 here, since the RFC leaves it open."""

    status, error, type = 401, "unauthorized", "unauthorized"


class AccountDoesNotExist(Problem):
    """No account has that URL or key."""

    status, error, type = 400, "account_does_not_exist", "accountDoesNotExist"


class BadNonce(Problem):
    """The nonce is not ours, too old or used."""

    status, error, type = 400, "bad_nonce", "badNonce"


class BadPublicKey(Problem):
    """The account key is not acceptable."""

    status, error, type = 400, "bad_public_key", "badPublicKey"


class BadSignatureAlgorithm(Problem):
    """The JWS algorithm is not offered; ``members`` carries ``algorithms``."""

    status, error, type = 400, "bad_signature_algorithm", "badSignatureAlgorithm"


class BadCsr(Problem):
    """The certificate request breaks a rule."""

    status, error, type = 400, "bad_csr", "badCSR"


class Caa(Problem):
    """A CAA record forbids the issuance, or could not be read."""

    status, error, type = 403, "caa", "caa"


class OnionCaaRequired(Problem):
    """The client must bring the CAA records of an onion service when it finalizes (RFC 9799 s6.4.1)."""

    status, error, type = 403, "onion_caa_required", "onionCAARequired"


class ExternalAccountRequired(Problem):
    """A new account needs a binding."""

    status, error, type = 403, "external_account_required", "externalAccountRequired"


class InvalidContact(Problem):
    """A contact URL breaks a rule."""

    status, error, type = 400, "invalid_contact", "invalidContact"


class UnsupportedContact(Problem):
    """The scheme of a contact URL is not offered."""

    status, error, type = 400, "unsupported_contact", "unsupportedContact"


class InvalidProfile(Problem):
    """The profile is unknown or does not fit."""

    status, error, type = 400, "invalid_profile", "invalidProfile"


class OrderNotReady(Problem):
    """The order cannot be finalized in its state."""

    status, error, type = 403, "order_not_ready", "orderNotReady"


class RejectedIdentifier(Problem):
    """The identifier will not be certified."""

    status, error, type = 400, "rejected_identifier", "rejectedIdentifier"


class UnsupportedIdentifier(Problem):
    """The type of the identifier is not offered."""

    status, error, type = 400, "unsupported_identifier", "unsupportedIdentifier"


class UserActionRequired(Problem):
    """The terms of service must be agreed to."""

    status, error, type = 403, "user_action_required", "userActionRequired"


class Compound(Problem):
    """Several different problems, one for each identifier."""

    status, error, type = 400, "invalid_request", "compound"
