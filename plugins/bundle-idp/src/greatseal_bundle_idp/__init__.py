"""The identity provider as one install."""

features = ("idp", "resolver", "users-file", "client-auth-jwt", "dpop", "resource-indicators")
"""What `[plugins] sets = ["idp"]` enables."""
all_features = (
    *features,
    "ciba",
    "client-auth-kerberos",
    "client-auth-mtls",
    "device-flow",
    "fapi",
    "federation",
    "hbac",
    "identity-api",
    "ipa",
    "jar",
    "jwt-bearer",
    "notices",
    "openid-federation",
    "pam",
    "otp",
    "passkey",
    "rar",
    "registration",
    "spnego",
    "token-authority",
    "token-exchange",
)
"""What `[plugins] sets = ["idp-all"]` enables."""
