from .conversation import Conversation
from .engine import Answer, Engine, Message, Prompt, Sampling
from .openai_engine import OpenAIEngine
from .response_cache import CachedEngine
from .transformers_engine import TransformersEngine
from .vllm_engine import VLLMEngine

__all__ = [
    "Answer",
    "CachedEngine",
    "Conversation",
    "Engine",
    "Message",
    "OpenAIEngine",
    "Prompt",
    "Sampling",
    "TransformersEngine",
    "VLLMEngine",
]
