"""The models are one value: joined from the files that offer them, and handed to whoever walks a script."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

import wmrl_gym.scriptcheck
from wmrl_gym.scriptcheck.models import Call, Models
from wmrl_gym.scriptcheck.semantics import all_models
from wmrl_gym.scriptcheck.values.objects import Bound, Items
from wmrl_gym.scriptcheck.values.scalars import Const, Value
from wmrl_gym.scriptcheck.walk.interpreter import Interpreter

_ROOM = Path(wmrl_gym.scriptcheck.__file__).parent


def _answer(call: Call) -> Value:
    return Const(42)


def _evaluated(models: Models, expression: str) -> Value:
    return Interpreter(models, None).eval(ast.parse(expression, mode="eval").body)


def test_an_interpreter_goes_by_the_models_it_is_given() -> None:
    own = Models()
    own.function("len", of="builtins")(_answer)
    assert _evaluated(own, "len('abc')") == Const(42)
    assert _evaluated(all_models(), "len('abc')") == Const(3)
    assert _evaluated(Models(), "len('abc')") not in (Const(42), Const(3))


def test_every_file_that_offers_models_is_found() -> None:
    files = [path for path in _ROOM.rglob("*.py") if "\nMODELS = Models()\n" in path.read_text()]
    assert len(files) > 20
    for path in files:
        name = ".".join(path.relative_to(_ROOM).with_suffix("").parts)
        offered = importlib.import_module(f"wmrl_gym.scriptcheck.{name}").MODELS
        assert any(vars(offered).values()), name
        for kind, table in vars(offered).items():
            assert table.items() <= vars(all_models())[kind].items(), name


def test_a_second_model_of_the_same_thing_is_refused() -> None:
    one, other = Models(), Models()
    one.method(Items, "append")(lambda call, items: Const(1))
    with pytest.raises(ValueError, match="append"):
        one.method(Items, "append")(lambda call, items: Const(2))
    other.method(Items, "append")(lambda call, items: Const(2))
    with pytest.raises(ValueError, match="append"):
        one.join(other)


def test_arguments_are_bound_before_a_model_sees_the_call() -> None:
    models, seen = Models(), []
    models.attribute(Items)(lambda interpreter, items, name: Bound(items, name))
    models.method(Items, "append", bind=lambda call, items: seen.append(call.callee))(
        lambda call, items: Const(len(seen))
    )
    assert _evaluated(models, "[].append(1)") == Const(1)
    assert seen == ["append"]
