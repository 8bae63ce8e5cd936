"""The CA's part of the start page: which root, how to know it, how to trust it (ruling R106)."""

import aiohttp
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256


async def page(service):
    async with aiohttp.ClientSession() as http:
        async with http.get(f"{service.url}/") as answer:
            text = await answer.text()
        async with http.get(f"{service.url}/ca/root.pem") as answer:
            return text, await answer.read()


async def test_r106_the_root_certificate_its_fingerprint_and_how_to_trust_it(start_service):
    service = await start_service("ca", "acme", "resolver", "http-01")

    text, root = await page(service)

    assert '<a href="/ca/root.pem">Root certificate</a>' in text
    assert x509.load_pem_x509_certificate(root).fingerprint(SHA256()).hex(":").upper() in text
    for command in ("update-ca-certificates", "trust anchor", "security add-trusted-cert", "certutil -addstore"):
        assert command in text
    assert f"{service.url}/acme/directory" in text
    assert "certbot" not in text  # http-01 asks port 80 of public addresses alone


async def test_r106_the_certbot_line_where_it_works(start_service):
    works = {"http_validation_allow_private_ips": True, "http_validation_port": 5002}
    service = await start_service("ca", "acme", "resolver", "http-01", server=works)

    text, _ = await page(service)

    assert f"--server {service.url}/acme/directory -d hello.localhost" in text
    assert str(service.host("ca").state_dir) not in text
