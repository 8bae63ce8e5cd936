"""The migrations of the certificate authority."""
