"""The testing kit for plugin authors: fixtures, fakes and contract test classes."""
