"""How long a step takes and where it waits: simulated, from assumed or measured costs."""
