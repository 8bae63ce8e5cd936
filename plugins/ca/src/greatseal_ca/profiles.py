"""Profiles by CA, and which one an order gets (draft-ietf-acme-profiles)."""

from collections.abc import Mapping

from greatseal.api.acme import InvalidProfile
from greatseal.api.issuance import Profile
from greatseal_ca.settings import CaSettings, IssueAs, ProfileSettings
from greatseal_ca.validity import public_cap

X509 = "x509"
"""The ``issue_as`` of profiles whose certificates are signed by the issuing keys of the CAs themselves."""
BUILT_IN = "default"
"""The profile that there is when none is configured, and the one that an order gets when it names none."""

PLAIN = ProfileSettings()


class Profiles:
    """The profiles of every CA."""

    def __init__(self, cas: Mapping[str, CaSettings], configured: Mapping[str, ProfileSettings], issue_as: Mapping[str, IssueAs]) -> None:
        self.capped = {ca_id: ca.enforce_validity_cap for ca_id, ca in cas.items()}
        """Whether the CA cuts lifetimes to what public CAs may give."""
        self.ca_ids = tuple(cas)
        self.settings: dict[str, ProfileSettings] = {}
        """Of every profile, by id; the same mapping as long as the service runs."""
        self._cas = cas
        self._keyed = configured
        self._built_in = {} if configured else {BUILT_IN: PLAIN}
        """What there is as long as the configuration has none: clients of before go on when an operator makes the first."""
        self._issue_as = issue_as
        self.read_again()

    def read_again(self) -> None:
        """After a profile came, changed or went."""
        settings = {**self._built_in, **self._keyed}
        self._by_ca = {ca_id: self._of(ca, settings) for ca_id, ca in self._cas.items()}
        self.settings.clear()
        self.settings.update(settings)

    def _of(self, ca: CaSettings, settings: Mapping[str, ProfileSettings]) -> dict[str, Profile]:
        offered = {id: own for id, own in settings.items() if not own.ca_ids or ca.id in own.ca_ids}
        return {id: _profile(id, ca, own, self._issue_as.get(id, IssueAs()).issue_as) for id, own in offered.items()}

    def of(self, ca_id: str) -> Mapping[str, Profile]:
        """The profiles that the CA offers, by id."""
        return self._by_ca[ca_id]

    def signed(self, ca_id: str) -> Mapping[str, Profile]:
        """Those of them whose certificates the key of the CA signs."""
        return {id: profile for id, profile in self._by_ca[ca_id].items() if profile.issue_as == X509}

    def choose(self, requested: str | None, ca_id: str) -> Profile:
        """The profile asked for, or the default. Raises InvalidProfile. Without configured profiles the wish does not count."""
        offered = self._by_ca[ca_id]
        if requested is None or not self._keyed:
            return offered.get(BUILT_IN) or next(iter(offered.values()))
        if requested not in offered:
            raise InvalidProfile(f"no such profile here; offered are {', '.join(offered)}")
        return offered[requested]

    def too_long(self, lives: Mapping[str, int], now: int) -> list[str]:
        """The profiles whose certificates could never live as long as they say; ``lives`` are the days of CAs as a whole."""
        return [
            f"{self._key(profile)}: {profile.validity_days} days are more than the {lives[ca_id]} that CA {ca_id!r} lives; "
            f"certificates end with their CA, so give {lives[ca_id]} at most"
            for ca_id in lives
            for profile in self.signed(ca_id).values()
            if self._days(profile, now) > lives[ca_id]
        ]

    def longest(self, ca_id: str, now: int) -> int:
        """The days of the profile whose certificates under the key of the CA live longest."""
        return max((self._days(profile, now) for profile in self.signed(ca_id).values()), default=0)

    def _days(self, profile: Profile, now: int) -> int:
        return min(profile.validity_days, public_cap(now)) if self.capped[profile.ca_id] else profile.validity_days

    def _key(self, profile: Profile) -> str:
        """Where the days of the profile are said."""
        return f"[profiles.{profile.id}] validity_days" if self.settings[profile.id].validity_days else "[ca] validity_days"

    def issue_as(self) -> dict[str, str]:
        """The profiles' issuers: a profile's id by the value of its ``issue_as``."""
        return {profile.issue_as: profile.id for offered in self._by_ca.values() for profile in offered.values()}


def problems(cas: Mapping[str, CaSettings], configured: Mapping[str, ProfileSettings], *, whole: bool = True) -> list[str]:
    """What is wrong between the profiles and the CAs, one line each; ``whole``: there are no others."""
    found = [
        f"[profiles.{id}] ca_ids: {ca_id!r} is no [ca] id; there is {', '.join(cas)}"
        for id, own in configured.items()
        for ca_id in own.ca_ids
        if ca_id not in cas
    ]
    served = {ca_id for own in configured.values() for ca_id in own.ca_ids or cas}
    if whole and configured and not found:
        found += [f"[ca] {ca_id}: no profile is for this CA; name it in the ca_ids of one" for ca_id in cas if ca_id not in served]
    return found


def _profile(id: str, ca: CaSettings, own: ProfileSettings, issue_as: str) -> Profile:
    days = own.validity_days or ca.validity_days
    return Profile(
        id=id,
        description=f"{days} days, {', '.join(own.eku) or 'no extended key usage'}",
        issue_as=issue_as,
        ca_id=ca.id,
        validity_days=days,
        eku=own.eku,
    )
