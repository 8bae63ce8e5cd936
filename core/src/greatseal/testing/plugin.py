"""The pytest plugin: fixtures for the tests of plugins."""
