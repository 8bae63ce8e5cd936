"""The certificate authority as one install: every feature of an ACME CA."""

features = (
    "ca",
    "acme",
    "resolver",
    "http-01",
    "tls-alpn-01",
    "dns-01",
    "dns-persist-01",
    "onion-csr-01",
    "email-reply-00",
    "caa",
    "eab",
    "ca-admin",
    "mtc",
)
"""What `[plugins] sets = ["ca"]` enables; ca-admin does nothing without `[admin]`, mtc nothing without `[mtc]`. Installed too, and enabled
by name: dns-account-01 and tkauth-01, whose documents are drafts, and san-kerberos."""
