"""A framework for tests."""
