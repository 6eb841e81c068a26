"""World models: what predicts an outcome in place of finding it out."""

from __future__ import annotations
