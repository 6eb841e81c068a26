"""Lets ``python -m wmrl_gym`` do what ``wmrl`` does."""

import sys

from wmrl_gym.cli import main

if __name__ == "__main__":
    sys.exit(main())
