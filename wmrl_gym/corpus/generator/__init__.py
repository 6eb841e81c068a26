"""Draws the conversations from which the nano agent is cold-started: scripts, their mistakes, and second turns."""

from __future__ import annotations
