"""The tiny competitions of static analysis's tests."""

from __future__ import annotations

from tests.scriptcheck.conftest import worlds

__all__ = ["worlds"]
