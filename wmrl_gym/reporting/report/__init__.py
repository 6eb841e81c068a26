"""`wmrl report`: runs as one HTML file that needs no network."""

from wmrl_gym.reporting.report.loading import RecordedRun, load_runs
from wmrl_gym.reporting.report.page import build_page

__all__ = ["RecordedRun", "build_page", "load_runs"]
