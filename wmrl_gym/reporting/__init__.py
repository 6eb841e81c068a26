"""What a run shows and leaves behind: metrics, live progress, the final table, the run directory."""
