"""Which paths and account URLs are of which CA."""

import pytest

from greatseal.api.problems import NotFound
from greatseal_acme.protocol.urls import Paths

ID = "0b0f0b0e-0000-8000-8000-000000000003"


@pytest.mark.parametrize(
    ("url", "id"),
    [
        (f"https://ca.example/acme/account/{ID}", ID),
        (ID, None),
        (f"https://ca.example/acme/one/account/{ID}", None),
        (f"https://ca.example/acme/account/{ID}/orders", None),
        (f"https://other.example/acme/account/{ID}", None),
    ],
)
def test_an_account_has_one_url_at_every_ca(url, id):
    paths = Paths("https://ca.example", ["one", "two"], "two", scoped=False)

    assert [paths.of(path).account_id(url) for path in ({}, {"ca_id": "one"}, {"ca_id": "two"})] == [id] * 3
    assert paths.account(ID, "") == f"https://ca.example/acme/account/{ID}"


def test_an_account_of_one_ca_is_below_its_path():
    paths = Paths("https://ca.example", ["one", "two"], "two", scoped=True)

    assert paths.account(ID, "one") == f"https://ca.example/acme/one/account/{ID}"
    assert paths.account(ID, "two") == f"https://ca.example/acme/account/{ID}"
    assert paths.of({"ca_id": "one"}).account_id(paths.account(ID, "two")) is None


def test_a_ca_that_is_there_no_more_has_no_path():
    paths = Paths("https://ca.example", ["one"], "one", scoped=False)

    assert paths.of_ca("gone") is paths.default
    with pytest.raises(NotFound):
        paths.of({"ca_id": "gone"})
