"""The line for certbot is printed where it works, and nowhere else."""

import pytest

from greatseal.testing.service import Kernel, document

WORKS = {"http_validation_allow_private_ips": True, "http_validation_port": 5002}


def lines(folder, enabled, server):
    kernel = Kernel(document(folder, enabled, server=server))
    return [line for one in kernel.welcomes if one.title == "A certificate" for line in one.lines()]


def test_a_server_for_trying_out_prints_lines_to_paste(tmp_path):
    order, renew = lines(tmp_path, ["ca", "acme", "resolver", "http-01"], WORKS)

    assert "--http-01-port 5002 " in order
    assert order.startswith("certbot certonly --standalone ")
    assert renew.startswith("certbot renew ")


@pytest.mark.parametrize(
    "change",
    [
        {"http_validation_allow_private_ips": False},
        {"http_validation_port": 80},
        {"http_validation_port": 1023},
        {"base_url": "https://ca.example.org"},
    ],
)
def test_any_other_prints_none(tmp_path, change):
    assert lines(tmp_path, ["ca", "acme", "resolver", "http-01"], {**WORKS, **change}) == []


def test_without_http_01_there_is_nobody_who_asks_there(tmp_path):
    assert lines(tmp_path, ["ca", "acme", "resolver", "finger-01"], WORKS) == []


@pytest.mark.parametrize("required", [True, False])
def test_where_new_accounts_need_a_binding_none_is_printed(tmp_path, required):
    found = lines(tmp_path, ["ca", "acme", "resolver", "http-01", "eab"], {**WORKS, "external_account_required": required})

    assert bool(found) is not required


PLAIN = "certbot certonly --standalone --server https://ca.example.org/acme/directory -d NAME"
BOUND = PLAIN.replace(" --server", " --http-01-port 8080 --server") + " --eab-kid KID --eab-hmac-key KEY"


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ({}, PLAIN),
        ({"external_account_required": True, "http_validation_port": 8080}, BOUND),
    ],
)
def test_the_start_page_of_a_company_tells_what_to_type_on_a_server(tmp_path, server, said):
    server = {"base_url": "https://ca.example.org", **server}
    kernel = Kernel(document(tmp_path, ["ca", "acme", "resolver", "http-01", "eab"], server=server))

    (part,) = kernel.hooks.instances["acme"].start_page(kernel.hosts["acme"])

    assert [line.value for line in part.lines()][1:] == [said]
