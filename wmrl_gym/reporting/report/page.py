"""One HTML file: tables as they are, charts and trajectories as compressed data beside the code that shows them.

Nothing is loaded from anywhere. The page's own policy lets exactly the three scripts run that are put in here, by their
digests: whatever text of an agent should slip through the escaping, it cannot become code.
"""

from __future__ import annotations

import base64
import datetime
import gzip
import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from html import escape
from importlib import resources
from string import Template
from typing import Any

from wmrl_gym.reporting.report import charts, tables
from wmrl_gym.reporting.report.browsing import browser_payload
from wmrl_gym.reporting.report.charts import Chart
from wmrl_gym.reporting.report.curves import COSTS, by_experiment
from wmrl_gym.reporting.report.loading import RecordedRun
from wmrl_gym.version import __version__

DEFAULT_TRAJECTORIES = 4000


def build_page(runs: Sequence[RecordedRun], *, trajectories: int = DEFAULT_TRAJECTORIES) -> str:
    """The report on some runs, as HTML.

    Args:
        runs: what `load_runs` returned.
        trajectories: how many are put in at most, executed and suspected ones first.

    Raises:
        ImportError: if Plotly is not installed, with the extra to install.
    """
    groups = by_experiment(runs)
    sections = {
        "learning": charts.learning_charts(groups),
        "calibration": charts.calibration_charts(groups),
        "fusion": charts.fusion_charts(groups),
        "accuracy": charts.accuracy_charts(groups),
        "time": charts.time_chart(groups),
    }
    payload = browser_payload(runs, trajectories)
    (library, packed_library), show_charts, browse = _plotly_script(), _asset("charts.js"), _asset("browser.js")
    names = list(groups)
    notes = tables.note_list(runs)
    return Template(_asset("page.html")).substitute(
        title=escape(f"{', '.join(names)}: wmrl report"),
        policy=_policy(library, show_charts, browse),
        style=_asset("report.css"),
        heading=escape(", ".join(names)),
        summary=escape(_summary(runs, groups)),
        notes=f'<section class="notes" aria-label="Missing or broken">{notes}</section>' if notes else "",
        runs=tables.run_table(runs),
        results=tables.result_tables(groups) or _nothing("No run here has a final table yet."),
        costs=_cost_options(sections["learning"]),
        trajectories=_trajectory_note(payload),
        trajectory_data=_packed(payload),
        chart_data=_packed([chart.as_dict() for found in sections.values() for chart in found]),
        plotly=packed_library,
        show_charts=show_charts,
        browse=browse,
        **{name: _figures(found, _EMPTY[name]) for name, found in sections.items()},
    )


_EMPTY = {
    "learning": "No run here has finished a step.",
    "calibration": "No trajectory was scored by both the world model and execution: no calibration to show.",
    "fusion": "These runs weigh all groups alike, or had no anchors to measure a residual on.",
    "accuracy": "No trajectory was scored by both the world model and execution: nothing is known of its accuracy.",
    "time": "No run here has finished a step.",
}


def _figures(found: Sequence[Chart], nothing: str) -> str:
    if not found:
        return _nothing(nothing)
    figures = (
        f'<figure id="figure-{escape(chart.key)}">'
        f"<figcaption><b>{escape(chart.title)}</b> <span>{escape(chart.note)}</span></figcaption>"
        f'<div class="plot" data-chart="{escape(chart.key)}" role="img" '
        f'aria-label="{escape(f"Chart: {chart.title}. {chart.note}")}"></div></figure>'
        for chart in found
    )
    return f'<div class="charts">{"".join(figures)}</div>'


def _nothing(text: str) -> str:
    return f'<p class="nothing">{escape(text)}</p>'


def _summary(runs: Sequence[RecordedRun], groups: dict[str, list[RecordedRun]]) -> str:
    made = datetime.datetime.now().strftime("%Y-%m-%d %H:%M")
    kinds = "" if len(groups) == 1 else f" of {len(groups)} experiments"
    plural = "" if len(runs) == 1 else "s"
    return f"{len(runs)} run{plural}{kinds}, wmrl_gym {__version__}, {made}"


def _cost_options(found: Sequence[Chart]) -> str:
    """Costs that every curve knows can be chosen; the others say why not."""
    known = [set(trace["meta"]["x"]) for chart in found for trace in chart.data if trace.get("meta")]
    return "".join(
        f'<option value="{name}">{escape(label)}</option>'
        if known and all(name in one for one in known)
        else f'<option value="{name}" disabled>{escape(label)} (not recorded)</option>'
        for name, label in COSTS.items()
    )


def _trajectory_note(payload: dict[str, Any]) -> str:
    shown, total = len(payload["trajectories"]), payload["total"]
    if not total:
        return "No trajectories were recorded in these runs. Runs with logger.trajectories=all have them."
    if shown < total:
        return f"{shown:,} of {total:,} recorded trajectories: executed and suspected ones first, the others evenly."
    return f"All {total:,} recorded trajectories."


def _policy(*scripts: str) -> str:
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:"


def _packed(data: Any) -> str:
    return _packed_text(json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")))


def _packed_text(text: str) -> str:
    """Base64 of gzip, which holds no character that HTML could take for its own."""
    return base64.b64encode(gzip.compress(text.encode("utf-8", "replace"), 9, mtime=0)).decode()


def _asset(name: str) -> str:
    return resources.files("wmrl_gym.reporting.report").joinpath(name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _plotly_script() -> tuple[str, str]:
    """Plotly's script, as it is and packed."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ImportError("the report's charts need Plotly: pip install 'wmrl-gym[report]'") from error
    script = str(get_plotlyjs())
    return script, _packed_text(script)
