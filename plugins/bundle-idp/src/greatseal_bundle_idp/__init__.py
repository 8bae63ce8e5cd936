"""The identity provider as one install."""

features = ("idp", "resolver", "users-file", "client-auth-jwt")
"""What `[plugins] sets = ["idp"]` enables."""
