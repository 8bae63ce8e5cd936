"""Does a test fail when a line that decides is taken out? ``make mutants`` tries each one of mutants.toml.

The table has, by file, what each deciding line says (:mod:`architecture.decisive`), and

- the test, or the tests, of which one must fail without it: ``"path::name"``;
- or ``{ reason = "..." }``: why no test can tell;
- for an expression that narrows: ``{ instead = "...", test = "path::name" }``, what stands there in the mutant.

``--missing`` lists deciding lines that have no entry, and entries whose line is gone. Words choose the entries that hold all of them.
"""

import argparse
import math
import os
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from architecture.decisive import cut, decisive

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "tests/architecture/mutants.toml"
SCOPE = (
    "core/src/greatseal/handles.py",
    "core/src/greatseal/jose/**/*.py",
    "core/src/greatseal/keys/**/*.py",
    "core/src/greatseal/net/**/*.py",
    "core/src/greatseal/principals.py",
    "plugins/acme/src/greatseal_acme/admin.py",
    "plugins/acme/src/greatseal_acme/endings.py",
    "plugins/acme/src/greatseal_acme/key_change.py",
    "plugins/acme/src/greatseal_acme/revocation.py",
    "plugins/acme/src/greatseal_acme/terms.py",
    "plugins/acme/src/greatseal_acme/finalize.py",
    "plugins/acme/src/greatseal_acme/new_authz.py",
    "plugins/acme/src/greatseal_acme/orders.py",
    "plugins/acme/src/greatseal_acme/protocol/urls.py",
    "plugins/acme/src/greatseal_acme/renewal_info.py",
    "plugins/ca/src/greatseal_ca/csr.py",
    "plugins/ca/src/greatseal_ca/checks.py",
    "plugins/ca/src/greatseal_ca/chains.py",
    "plugins/ca/src/greatseal_ca/ceremonies.py",
    "plugins/ca/src/greatseal_ca/generations.py",
    "plugins/ca/src/greatseal_ca/ocsp.py",
    "plugins/ca/src/greatseal_ca/revocation.py",
    "plugins/ca/src/greatseal_ca/root.py",
    "plugins/ca/src/greatseal_ca/usages.py",
    "plugins/ca/src/greatseal_ca/trust.py",
    "plugins/ca-admin/src/greatseal_ca_admin/[!_cop]*.py",
    "plugins/ca-admin/src/greatseal_ca_admin/certificates.py",
    "plugins/ca-admin/src/greatseal_ca_admin/operators.py",
    "plugins/caa/src/**/*.py",
    "plugins/dns-*/src/**/*.py",
    "plugins/ciba/src/**/*.py",
    "plugins/client-auth-kerberos/src/**/*.py",
    "plugins/client-auth-mtls/src/**/*.py",
    "plugins/device-flow/src/**/*.py",
    "plugins/dpop/src/**/*.py",
    "plugins/registration/src/**/*.py",
    "plugins/eab/src/**/*.py",
    "plugins/fapi/src/**/*.py",
    "plugins/federation/src/greatseal_federation/callback.py",
    "plugins/federation/src/greatseal_federation/exchange.py",
    "plugins/federation/src/greatseal_federation/flow.py",
    "plugins/federation/src/greatseal_federation/id_tokens.py",
    "plugins/federation/src/greatseal_federation/identity.py",
    "plugins/federation/src/greatseal_federation/logouts.py",
    "plugins/federation/src/greatseal_federation/mapping.py",
    "plugins/federation/src/greatseal_federation/settings.py",
    "plugins/federation/src/greatseal_federation/start.py",
    "plugins/gssapi/src/**/*.py",
    "plugins/hbac/src/greatseal_hbac/[!c]*.py",
    "plugins/pam/src/**/*.py",
    "plugins/ipa/src/**/*.py",
    "plugins/email-reply-00/src/**/*.py",
    "plugins/idp/src/greatseal_idp/authorize/**/*.py",
    "plugins/idp/src/greatseal_idp/extensions.py",
    "plugins/idp/src/greatseal_idp/pages/forms.py",
    "plugins/idp/src/greatseal_idp/proofs.py",
    "plugins/idp/src/greatseal_idp/scopes.py",
    "plugins/idp/src/greatseal_idp/token/**/*.py",
    "plugins/idp/src/greatseal_idp/sessions/mail.py",
    "plugins/idp/src/greatseal_idp/ui/account.py",
    "plugins/idp/src/greatseal_idp/ui/change_password.py",
    "plugins/idp/src/greatseal_idp/ui/forgot.py",
    "plugins/idp/src/greatseal_idp/ui/mail.py",
    "plugins/idp/src/greatseal_idp/ui/own_password.py",
    "plugins/jar/src/**/*.py",
    "plugins/mtc/src/greatseal_mtc/backends/*.py",
    "plugins/mtc/src/greatseal_mtc/checking.py",
    "plugins/mtc/src/greatseal_mtc/checkpoints.py",
    "plugins/mtc/src/greatseal_mtc/following.py",
    "plugins/mtc/src/greatseal_mtc/landmarks.py",
    "plugins/mtc/src/greatseal_mtc/page/look_up.py",
    "plugins/mtc/src/greatseal_mtc/recording.py",
    "plugins/mtc/src/greatseal_mtc/revoked.py",
    "plugins/mtc/src/greatseal_mtc/stored_checkpoints.py",
    "plugins/mtc/src/greatseal_mtc/stored_landmarks.py",
    "plugins/mtc/src/greatseal_mtc/commands.py",
    "plugins/mtc/src/greatseal_mtc/routes.py",
    "plugins/mtc/src/greatseal_mtc/sequencer.py",
    "plugins/mtc/src/greatseal_mtc/state.py",
    "plugins/mtc/src/greatseal_mtc/views.py",
    "plugins/onion-csr-01/src/**/*.py",
    "plugins/mtc/src/greatseal_mtc/algorithms.py",
    "plugins/mtc/src/greatseal_mtc/anchors.py",
    "plugins/mtc/src/greatseal_mtc/authorities.py",
    "plugins/mtc/src/greatseal_mtc/cosigners.py",
    "plugins/mtc/src/greatseal_mtc/dialects.py",
    "plugins/mtc/src/greatseal_mtc/issuer.py",
    "plugins/mtc/src/greatseal_mtc/keys.py",
    "plugins/mtc/src/greatseal_mtc/landmark_list.py",
    "plugins/mtc/src/greatseal_mtc/merkle.py",
    "plugins/mtc/src/greatseal_mtc/note.py",
    "plugins/mtc/src/greatseal_mtc/proofs.py",
    "plugins/mtc/src/greatseal_mtc/properties.py",
    "plugins/mtc/src/greatseal_mtc/structures.py",
    "plugins/mtc/src/greatseal_mtc/tiles.py",
    "plugins/mtc/src/greatseal_mtc/verify.py",
    "plugins/mtc/src/greatseal_mtc/witness/service.py",
    "plugins/mtc/src/greatseal_mtc/witness/state.py",
    "plugins/mtc/src/greatseal_mtc/monitor.py",
    "plugins/mtc/src/greatseal_mtc/documents.py",
    "plugins/mtc/src/greatseal_mtc/page/upload.py",
    "plugins/mtc/src/greatseal_mtc/wire.py",
    "plugins/mtc/src/greatseal_mtc/witnesses.py",
    "plugins/mtc/src/greatseal_mtc/witnessing.py",
    "plugins/notices/src/**/*.py",
    "plugins/otp/src/greatseal_otp/[!c]*.py",
    "plugins/otp/src/greatseal_otp/codes.py",
    "plugins/passkey/src/greatseal_passkey/[!_p]*.py",
    "plugins/rar/src/**/*.py",
    "plugins/resource-indicators/src/**/*.py",
    "plugins/san-kerberos/src/**/*.py",
    "plugins/spnego/src/**/*.py",
    "plugins/tls-alpn-01/src/**/*.py",
    "core/src/greatseal/api/trust.py",
    "core/src/greatseal/attempts.py",
    "core/src/greatseal/db/holds.py",
    "core/src/greatseal/outbox.py",
    "core/src/greatseal/polling.py",
    "plugins/jwt-bearer/src/**/*.py",
    "plugins/token-exchange/src/**/*.py",
    "plugins/tkauth-01/src/**/*.py",
    "plugins/token-authority/src/**/*.py",
    "plugins/identity-api/src/**/*.py",
    "plugins/openid-federation/src/**/*.py",
)
"""Where every deciding line has an entry."""


@dataclass(frozen=True)
class Entry:
    """A line of the table."""

    file: str
    what: str
    tests: tuple[str, ...] = ()
    reason: str = ""
    instead: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.file}: {self.what}"

    @property
    def place(self) -> str:
        """The function, or what is assigned at the top of the module."""
        return self.what.partition(": ")[0]

    @property
    def module(self) -> str:
        """The name of the module."""
        return self.file.partition("/src/")[2].removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def is_there(self) -> bool:
        """Whether its file has the line."""
        return bool(self.mutants()) if self.instead else self.what in _lines(self.file)

    def mutants(self) -> list[str]:
        """The file without the line, or with each of what may stand instead; none when the line is not there."""
        path = ROOT / self.file
        source = path.read_text() if path.exists() else ""
        found = [cut(source, self.what, instead) for instead in self.instead] if self.instead else [decisive(source).get(self.what)]
        return [one.mutant() for one in found if one is not None]


def entries() -> list[Entry]:
    """The table."""
    table = tomllib.loads(TABLE.read_text())
    return [_entry(file, what, value) for file, lines in table.items() for what, value in lines.items()]


def missing() -> list[str]:
    """Deciding lines without an entry."""
    known = {str(one) for one in entries()}
    return [line for file in _files() for what in _lines(file) if (line := f"{file}: {what}") not in known]


def stale() -> list[str]:
    """Entries whose line is gone."""
    return [str(one) for one in entries() if not one.is_there()]


def survivors(chosen: Sequence[Entry], jobs: int) -> list[str]:
    """Try the mutants of entries that have tests, and tell of those whose tests pass without the line."""
    import pytest
    from architecture.trials import Trial, Trials

    tests = sorted({test for one in chosen for test in one.tests})
    unchanged = Trial("no line taken out", tests, seconds=math.inf)
    trials = [
        Trial(f"{one} #{number}" if number else str(one), one.tests, one.module, one.place, source)
        for one in chosen
        if one.tests
        for number, source in enumerate(one.mutants())
    ]
    running = Trials([unchanged, *trials], jobs)
    code = pytest.main(["-qq", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", str(ROOT), *tests], plugins=[running])
    if code:
        print(f"pytest ended with {code!r}")
        return tests
    unfit = running.failures.pop(unchanged.name)
    if unfit != []:
        print(f"these fail as the sources are, and show nothing: {unfit}")
    return [name for name, failed in running.failures.items() if not failed] + (unfit or [])


def _entry(file: str, what: str, value: str | list[str] | dict[str, str | list[str]]) -> Entry:
    given = value if isinstance(value, dict) else {"test": value}
    lists = {name: (one,) if isinstance(one, str) else tuple(one) for name, one in given.items()}
    return Entry(file, what, lists.get("test", ()), " ".join(lists.get("reason", ())), lists.get("instead", ()))


@cache
def _lines(file: str) -> tuple[str, ...]:
    """What decides in a file, in the order of its lines."""
    path = ROOT / file
    return tuple(decisive(path.read_text())) if path.exists() else ()


def _files() -> Iterator[str]:
    for pattern in SCOPE:
        yield from sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(pattern))


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("-j", type=int, default=os.cpu_count() or 1)
    parser.add_argument("words", nargs="*")
    asked = parser.parse_args(arguments)
    chosen = [one for one in entries() if all(word in str(one) for word in asked.words)]
    found = [*missing(), *(f"gone: {one}" for one in stale())] if asked.missing else survivors(chosen, asked.j)
    if asked.missing:
        print(*found, sep="\n", end="\n" if found else "")
    else:
        explained = sum(bool(one.reason) for one in chosen)
        print(
            f"{len(chosen)} lines: {len(chosen) - explained} tried, {len(found)} of them not protected; {explained} with a reason instead"
        )
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
