"""Fixtures of the tests of the hub."""

from hub.fixtures import client, hub  # noqa: F401
