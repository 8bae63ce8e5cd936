"""Settings of all tests."""

from hypothesis import HealthCheck, settings

# The first example of a process builds Unicode tables, which takes seconds on a busy machine: not the fault of a test.
settings.register_profile("greatseal", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("greatseal")
