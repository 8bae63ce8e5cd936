"""The content of certificates: what profile, request and lifetime give, put into the frame of an issuer and linted."""

import msgspec
from cryptography import x509

from greatseal.api.issuance import Frame, IssuanceRequest
from greatseal_ca.build import Content, ca_extensions, leaf_extensions, to_be_signed
from greatseal_ca.constraints import Constraints
from greatseal_ca.csr import common_names
from greatseal_ca.lint import Expected, lint
from greatseal_ca.names import subject
from greatseal_ca.validity import Window


class Composition(msgspec.Struct, frozen=True, kw_only=True):
    """One certificate before it is built. ``names`` is the whole SAN."""

    request: IssuanceRequest
    names: tuple[x509.GeneralName, ...]
    frame: Frame
    window: Window
    constraints: Constraints

    def to_be_signed(self, now: int) -> tuple[bytes, int, int]:
        """The linted to-be-signed part with its notBefore and notAfter. Raises a Problem."""
        content = self.content(now)
        tbs = to_be_signed(content, self.frame)
        lint(tbs, self.expected(content.not_before))
        return tbs, content.not_before, content.not_after

    def content(self, now: int) -> Content:
        """What the certificate says, whoever issues it."""
        request, profile, key = self.request, self.request.profile, self.request.csr.public_key
        begin, end = self.window.choose(profile.validity_days, request.not_before, request.not_after, now)
        if profile.path_length is None:
            name = subject(request.identifiers, common_names(request.csr.csr))
            if not self.constraints.allows_subject(name):
                name = x509.Name([])
            extensions = leaf_extensions(key, self.names, profile.eku, empty_subject=not name.rdns)
        else:
            name = request.csr.csr.subject
            extensions = ca_extensions(key, profile.eku, path_length=profile.path_length)
        return Content(subject=name, public_key=key, not_before=begin, not_after=end, extensions=extensions)

    def expected(self, begin: int) -> Expected:
        """What the lint is to find."""
        profile = self.request.profile
        return Expected(
            frame=self.frame,
            bounds=self.window.bounds,
            spki=self.request.csr.spki,
            names=frozenset(self.names),
            eku=profile.eku,
            path_length=profile.path_length,
            longest_days=self.window.days(profile.validity_days, begin),
            constraints=self.constraints,
        )
