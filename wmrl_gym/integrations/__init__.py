"""The proxy inside other people's trainers, and behind HTTP."""

import lazy_loader

# The names are in __init__.pyi; each is imported when somebody asks for it.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
