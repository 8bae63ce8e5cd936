"""The check of account grants keeps the contract of finalize checks. Over HTTP: tests/system."""

import msgspec

from greatseal.api.acme import AccountView, Identifier
from greatseal.api.issuance import Finalization, Profile, ProvenIdentifier
from greatseal.testing.finalization import FinalizeCheckContract
from greatseal_acme.finalize import AccountGrant
from greatseal_acme.settings import AcmeProfile

ACCOUNT = AccountView(id="a1", url="https://ca.example/acme/account/a1", status="valid", thumbprint="t" * 43, profile_grants=("inner",))
ORDER = Finalization(
    order_id="o1",
    profile=Profile(id="inner", description="", issue_as="x509", ca_id="main", validity_days=90, eku=("serverAuth",)),
    identifiers=(ProvenIdentifier(identifier=Identifier("dns", "a.example"), validated_by="http-01"),),
    account=ACCOUNT,
    csr=None,
    ca_id="main",
    payload={},
)


class TestAccountGrant(FinalizeCheckContract):
    passes = ORDER
    refuses = msgspec.structs.replace(ORDER, account=msgspec.structs.replace(ACCOUNT, profile_grants=None))

    def check(self):
        return AccountGrant({"inner": AcmeProfile(require_account_grant=True)})
