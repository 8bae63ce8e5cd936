"""What the configuration refuses, and what the certbot line says."""

import pytest

from greatseal_acme.plugin import certbot_lines
from greatseal_acme.settings import AccountLimits, Acme, AcmeServer


@pytest.mark.parametrize(
    "given",
    [
        {"order_expiry_secs": 0},
        {"authz_expiry_secs": 59},
        {"terms_of_service_url": "terms.html"},
        {"website_url": "ftp://ca.example/"},
    ],
)
def test_a_value_that_cannot_be_kept_is_named(given):
    with pytest.raises(ValueError, match=next(iter(given))):
        AcmeServer(**given)


@pytest.mark.parametrize("struct", [Acme, AccountLimits])
@pytest.mark.parametrize("given", [{"max_pending_orders": -1}, {"new_orders_per_hour": -1}])
def test_a_limit_below_none_is_named(struct, given):
    with pytest.raises(ValueError, match=next(iter(given))):
        struct(**given)


def test_the_certbot_line_works_for_an_ordinary_user():
    certonly, renew = certbot_lines("http://localhost:8080/acme/directory", 5002, "var/certbot")

    assert certonly.startswith(
        "certbot certonly --standalone --http-01-port 5002 --server http://localhost:8080/acme/directory -d hello.localhost "
    )
    for option in ("--config-dir var/certbot/config", "--work-dir var/certbot/work", "--logs-dir var/certbot/logs"):
        assert option in certonly
        assert option in renew
    assert "--agree-tos" in certonly
    assert renew.startswith("certbot renew --force-renewal ")
