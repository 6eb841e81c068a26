from .authors import Draft, write_draft
from .file import Corpus, Header, Record, read_corpus, write_corpus
from .writing import Agent, Plan, write_blocks

__all__ = [
    "Agent",
    "Corpus",
    "Draft",
    "Header",
    "Plan",
    "Record",
    "read_corpus",
    "write_blocks",
    "write_corpus",
    "write_draft",
]
