"""The walk over a script: statements, expressions, and the hand-over to whoever models a value."""
