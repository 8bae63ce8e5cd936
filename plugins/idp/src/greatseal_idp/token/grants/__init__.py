"""The grants of RFC 6749, one file each."""
