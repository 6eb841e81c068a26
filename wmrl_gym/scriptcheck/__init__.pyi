from .check import ScriptReport, check_script
from .inventory import Column, DataFile, Inventory
from .overview import Overview, SubmissionContract
from .verdicts import RUNTIME_CHECKS, Check, Verdict

__all__ = [
    "RUNTIME_CHECKS",
    "Check",
    "Column",
    "DataFile",
    "Inventory",
    "Overview",
    "ScriptReport",
    "SubmissionContract",
    "Verdict",
    "check_script",
]
