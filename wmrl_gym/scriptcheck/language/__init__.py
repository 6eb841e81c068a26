"""What Python itself does: names, expressions, statements, containers, built-in functions, paths."""
