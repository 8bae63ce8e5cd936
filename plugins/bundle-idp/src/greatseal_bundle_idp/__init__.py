"""The identity provider as one install."""

features = ("idp", "resolver", "users-file", "ciba", "client-auth-jwt", "device-flow", "dpop", "rar", "resource-indicators", "jar")
"""What `[plugins] sets = ["idp"]` enables."""
