from .authors import Draft, write_draft
from .circumstances import check_circumstances, circumstances
from .competition_environment import CompetitionEnvironment
from .file import Corpus, Header, Record, read_corpus, write_corpus
from .writing import Agent, Plan, write_blocks

__all__ = [
    "Agent",
    "CompetitionEnvironment",
    "Corpus",
    "Draft",
    "Header",
    "Plan",
    "Record",
    "check_circumstances",
    "circumstances",
    "read_corpus",
    "write_blocks",
    "write_corpus",
    "write_draft",
]
