"""Abstract interpretation, expressions: literals, names, attributes, calls, comprehensions.

What operators, attributes and calls *mean* for a given kind of value is offered by the modules on containers,
frames, arrays and estimators; here is only the order in which Python evaluates things.
"""

from __future__ import annotations

import ast
from abc import abstractmethod
from typing import Any

from wmrl_gym.scriptcheck.cells import Cells
from wmrl_gym.scriptcheck.faults import Fault, python_fault
from wmrl_gym.scriptcheck.language.operators import binary, compare, unary
from wmrl_gym.scriptcheck.limits import MAX_ITEMS, MAX_TEXT, too_wide
from wmrl_gym.scriptcheck.models import Call
from wmrl_gym.scriptcheck.scope import Scope, join_values, scalar_cells
from wmrl_gym.scriptcheck.values.objects import Dict, Instance, Items
from wmrl_gym.scriptcheck.values.scalars import NONE, UNKNOWN, Const, Scalar, Text, Value
from wmrl_gym.scriptcheck.walk.dispatch import Dispatch

_UNROLL_COMPREHENSION = 400


class Expressions(Dispatch):
    """Evaluates expressions over abstract values."""

    # Evaluation

    def eval(self, node: ast.expr) -> Value:
        """Abstract value of an expression.

        Raises:
            Fault: the exception its evaluation would raise for certain.
        """
        self.count_step()
        try:
            return self._evaluate(node)
        except Fault as fault:
            self.mark(fault, node)
            raise

    def _evaluate(self, node: ast.expr) -> Value:
        if isinstance(node, ast.Name):
            return self.look_up(node.id)
        if isinstance(node, ast.Constant):
            return Const(node.value)
        if isinstance(node, ast.Call):
            return self._on_call(node)
        if isinstance(node, ast.Attribute):
            return self.attribute(self.eval(node.value), node.attr)
        if isinstance(node, ast.Subscript):
            return self.subscript(self.eval(node.value), self.eval(node.slice))
        evaluate = getattr(self, f"_on_{type(node).__name__.lower()}", None)
        return UNKNOWN if evaluate is None else evaluate(node)

    def _on_tuple(self, node: ast.Tuple) -> Value:
        return self._sequence(node.elts, "tuple")

    def _on_list(self, node: ast.List) -> Value:
        return self._sequence(node.elts, "list")

    def _on_set(self, node: ast.Set) -> Value:
        return self._sequence(node.elts, "set")

    def _sequence(self, nodes: list[ast.expr], kind: str) -> Value:
        items: list[Value] = []
        known = True
        for node in nodes:
            if isinstance(node, ast.Starred):
                inner = self.elements(self.eval(node.value))
                known = known and inner is not None
                items += inner or []
                if len(items) > MAX_ITEMS:
                    known, items = False, items[:1]
            else:
                items.append(self.eval(node))
        return Items(kind, items if known else None, born=len(self.loops))

    def _on_dict(self, node: ast.Dict) -> Value:
        items: dict[Any, Value] = {}
        known = True
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            value = self.eval(value_node)
            if key_node is None:
                known = known and isinstance(value, Dict) and value.items is not None
                items |= value.items if isinstance(value, Dict) and value.items is not None else {}
                continue
            key = self.hashable(self.eval(key_node))
            if key is None:
                known = False
            else:
                items[key] = value
        return Dict(items if known else None, next(iter(items.values()), UNKNOWN))

    def _on_slice(self, node: ast.Slice) -> Value:
        parts = [None if part is None else self.eval(part) for part in (node.lower, node.upper, node.step)]
        bounds = [part.value for part in (part or NONE for part in parts) if isinstance(part, Const)]
        if len(bounds) == 3:
            return Const(slice(*bounds))
        return Instance(slice, {"parts": parts})

    def _on_joinedstr(self, node: ast.JoinedStr) -> Value:
        parts: list[str | Cells] = []
        size = 0
        for part in node.values:
            if isinstance(part, ast.Constant):
                parts.append(str(part.value))
            elif isinstance(part, ast.FormattedValue):
                parts += self._formatted(part)
            size += len(parts[-1]) if parts and isinstance(parts[-1], str) else 0
            if size > MAX_TEXT or len(parts) > MAX_ITEMS:
                return Scalar(Cells("str", missing=False))
        literal = all(isinstance(part, str) for part in parts)
        return Const("".join(parts)) if literal else Text(tuple(parts))  # type: ignore[arg-type]

    def _formatted(self, node: ast.FormattedValue) -> list[str | Cells]:
        value = self.eval(node.value)
        spec = self.eval(node.format_spec) if node.format_spec is not None else Const("")
        if isinstance(value, Const) and isinstance(spec, Const) and node.conversion == -1:
            if too_wide(str(spec.value)):
                return [Cells("str", missing=False)]
            with python_fault(TypeError, ValueError):
                return [format(value.value, str(spec.value))]
        if isinstance(value, Text) and spec == Const(""):
            return list(value.parts)
        return [scalar_cells(value) or Cells()]

    def _on_ifexp(self, node: ast.IfExp) -> Value:
        verdict = self.truth(self.eval(node.test))
        if verdict is not None:
            return self.eval(node.body if verdict else node.orelse)
        found: list[Value] = []
        self.branch(lambda: found.append(self.eval(node.body)), lambda: found.append(self.eval(node.orelse)))
        return join_values(found[0], found[-1])

    @abstractmethod
    def branch(self, left: Any, right: Any) -> None:
        """Walk two alternatives (see `Interpreter`)."""

    def _on_boolop(self, node: ast.BoolOp) -> Value:
        decisive = isinstance(node.op, ast.Or)
        certain = True
        value: Value = UNKNOWN
        for operand in node.values:
            if certain:
                value = self.eval(operand)
            else:
                self.branch(lambda operand=operand: self.eval(operand), lambda: None)  # type: ignore[misc]
                value = UNKNOWN
                continue
            verdict = self.truth(value)
            if verdict is decisive:
                return value
            certain = certain and verdict is not None
        return value if certain else UNKNOWN

    def _on_unaryop(self, node: ast.UnaryOp) -> Value:
        return unary(self, node.op, self.eval(node.operand))

    def _on_binop(self, node: ast.BinOp) -> Value:
        return self.binary(node.op, self.eval(node.left), self.eval(node.right))

    def binary(self, operator: ast.operator, left: Value, right: Value) -> Value:
        """``left operator right``."""
        return binary(self, operator, left, right)

    def _on_compare(self, node: ast.Compare) -> Value:
        left, result = self.eval(node.left), UNKNOWN
        for operator, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.eval(right_node)
            result = compare(self, operator, left, right)  # type: ignore[assignment]
            if len(node.ops) > 1 and self.truth(result) is False:
                return Const(False)
            left = right
        return result

    def _on_lambda(self, node: ast.Lambda) -> Value:
        return self.function_value(node)

    def _on_starred(self, node: ast.Starred) -> Value:
        self.eval(node.value)
        return UNKNOWN

    def _on_namedexpr(self, node: ast.NamedExpr) -> Value:
        value = self.eval(node.value)
        self.bind_name(node.target.id, value)
        return value

    def _on_await(self, node: ast.Await) -> Value:
        return UNKNOWN

    # Comprehensions

    def _on_listcomp(self, node: ast.ListComp) -> Value:
        return self._comprehension(node.generators, lambda: self.eval(node.elt), "list")

    def _on_setcomp(self, node: ast.SetComp) -> Value:
        found = self._comprehension(node.generators, lambda: self.eval(node.elt), "set")
        return Items("set", found.items if isinstance(found, Items) and found.items is not None else None)

    def _on_generatorexp(self, node: ast.GeneratorExp) -> Value:
        return self._comprehension(node.generators, lambda: self.eval(node.elt), "generator")

    def _on_dictcomp(self, node: ast.DictComp) -> Value:
        pairs: list[tuple[Any, Value]] = []

        def pair() -> Value:
            key = self.hashable(self.eval(node.key))
            value = self.eval(node.value)
            pairs.append((key, value))
            return value

        found = self._comprehension(node.generators, pair, "list")
        known = isinstance(found, Items) and found.items is not None and all(key is not None for key, _ in pairs)
        return Dict(dict(pairs) if known else None, pairs[0][1] if pairs else UNKNOWN)

    def _comprehension(self, generators: list[ast.comprehension], element: Any, kind: str) -> Value:
        """Evaluate in a scope of its own; elements are known one by one where all iterables are."""
        scope = Scope(self.state.scope.name, self.state.scope)
        scope.outer_names = dict(self.state.scope.outer_names)
        self.state.scopes.append(scope)
        depth = len(self.state.scopes)
        out = _Collected()
        try:
            self._generate(generators, element, out)
        finally:
            del self.state.scopes[depth - 1 :]
        if out.known:
            return Items(kind, out.items)
        return Items(kind, None, out.items[0] if out.items else UNKNOWN, out.length)

    def _generate(self, generators: list[ast.comprehension], element: Any, out: _Collected) -> None:
        if not generators:
            out.items.append(element())
            return
        generator, rest = generators[0], generators[1:]
        iterable = self.eval(generator.iter)
        items = self.elements(iterable, at_most=_UNROLL_COMPREHENSION)
        if items is not None:
            for item in items:
                self.assign(generator.target, item)
                verdicts = [self.truth(self.eval(test)) for test in generator.ifs]
                if False in verdicts:
                    continue
                if None in verdicts:
                    out.known, out.length = False, None
                self._generate(rest, element, out)
            return
        times = self.length(iterable)
        out.known = False
        out.length = times if not generator.ifs and not rest else None
        if times == 0:
            return
        with self.repeated(times):
            self.assign(generator.target, self.element(iterable))
            verdicts = [self.truth(self.eval(test)) for test in generator.ifs]
            if False not in verdicts:
                self._generate(rest, element, out)

    @abstractmethod
    def assign(self, target: ast.expr, value: Value) -> None:
        """Bind a target (see `Interpreter`)."""

    def _on_call(self, node: ast.Call) -> Value:
        function = self.eval(node.func)
        args: list[Value] = []
        kwargs: dict[str, Value] = {}
        open_ended = False
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                inner = self.elements(self.eval(argument.value))
                open_ended = open_ended or inner is None
                args += inner or []
                if len(args) > MAX_ITEMS:
                    args, open_ended = [], True
            else:
                args.append(self.eval(argument))
        for keyword in node.keywords:
            value = self.eval(keyword.value)
            if keyword.arg is not None:
                kwargs[keyword.arg] = value
            elif isinstance(value, Dict) and value.items is not None:
                kwargs |= {str(k): v for k, v in value.items.items()}
            else:
                open_ended = True
        return self.call(function, Call(self, node, args, kwargs, open_ended=open_ended))  # type: ignore[arg-type]


class _Collected:
    """Elements of a comprehension, as they come."""

    def __init__(self) -> None:
        self.items: list[Value] = []
        self.known = True
        self.length: int | None = None
