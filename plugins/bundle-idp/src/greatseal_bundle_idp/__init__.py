"""The identity provider as one install."""

features = ("idp", "users-file", "client-auth-jwt")
"""What `[plugins] sets = ["idp"]` enables."""
