"""Abstract interpretation, expressions: literals, names, attributes, calls, comprehensions.

What operators, attributes and calls *mean* for a given kind of value is registered by the modules on containers,
frames, arrays and estimators; here is only the order in which Python evaluates things.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wmrl_gym.envs.mle_dojo.overview import Overview
from wmrl_gym.world_models.static_analysis import installed
from wmrl_gym.world_models.static_analysis.calls import ATTRIBUTES, FUNCTIONS, METHODS, STORES, SUBSCRIPTS, Call
from wmrl_gym.world_models.static_analysis.cells import Cells
from wmrl_gym.world_models.static_analysis.containers import element, elements, extend, length
from wmrl_gym.world_models.static_analysis.faults import AnalysisLimit, Fault, api_fault, runtime_fault
from wmrl_gym.world_models.static_analysis.names import SUBMISSION_PATH, Names
from wmrl_gym.world_models.static_analysis.objects import (
    call_object,
    call_unmodelled,
    call_unmodelled_method,
    script_class,
    store_attribute,
)
from wmrl_gym.world_models.static_analysis.operators import binary, compare, unary
from wmrl_gym.world_models.static_analysis.scope import Scope, State, join_values, scalar_cells
from wmrl_gym.world_models.static_analysis.values import (
    MISSING,
    NONE,
    UNKNOWN,
    Array,
    Bound,
    Const,
    Dict,
    Estimator,
    Frame,
    Function,
    Instance,
    Items,
    Real,
    Scalar,
    Series,
    Text,
    Value,
    constant,
)
from wmrl_gym.world_models.verdicts import Check

MAX_STEPS = 40_000
_UNROLL_COMPREHENSION = 400


class Expressions(Names):
    """Evaluates expressions over abstract values."""

    deepest = 8
    """Calls nested deeper than this are not followed."""

    def __init__(self, overview: Overview | None, budget_seconds: float = 20.0, memory_mb: float = 2048.0) -> None:
        self.overview = overview
        self.budget_seconds = budget_seconds
        self.memory_limit_mb = memory_mb
        self.state = State([Scope("<module>")])
        self.steps = 0
        self.multiplicity = 1.0
        """How often the code being walked is executed, inside loops that are walked once."""
        self.loops: list[int | None] = []
        """Rounds of each such loop, from the outermost inwards."""
        self.handling: list[Fault] = []
        self.active: list[ast.AST] = []
        self.experimental = False
        self.may_break = False
        self.changed_directory = False
        """Whether files may have appeared, or the working directory changed, by means that are not followed."""
        self.escaped = False
        """Whether the submission's path was handed to code that is not followed."""

    @property
    def depth(self) -> int:
        """Number of nested calls."""
        return len(self.state.scopes) - 1

    def count_step(self) -> None:
        """Give up on a script that would take too long to walk."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise AnalysisLimit(f"more than {MAX_STEPS} steps")

    def mark(self, fault: Fault, node: ast.AST) -> None:
        """Note on a passing fault which line of the current scope it comes from."""
        scope = self.state.scope
        if not any(scope is seen for seen in fault.marked):
            fault.marked.append(scope)
            fault.frames.append((getattr(node, "lineno", 0), scope.name))

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
        for part in node.values:
            if isinstance(part, ast.Constant):
                parts.append(str(part.value))
            elif isinstance(part, ast.FormattedValue):
                parts += self._formatted(part)
        literal = all(isinstance(part, str) for part in parts)
        return Const("".join(parts)) if literal else Text(tuple(parts))  # type: ignore[arg-type]

    def _formatted(self, node: ast.FormattedValue) -> list[str | Cells]:
        value = self.eval(node.value)
        spec = self.eval(node.format_spec) if node.format_spec is not None else Const("")
        if isinstance(value, Const) and isinstance(spec, Const) and node.conversion == -1:
            try:
                return [format(value.value, str(spec.value))]
            except (ValueError, TypeError) as error:
                raise runtime_fault(str(error), type(error).__name__) from None
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

    def branch(self, left: Any, right: Any) -> None:
        """Walk two alternatives (see `Interpreter`)."""
        raise NotImplementedError("Expressions is completed by Interpreter")

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

    def assign(self, target: ast.expr, value: Value) -> None:
        """Bind a target (see `Interpreter`)."""
        raise NotImplementedError("Expressions is completed by Interpreter")

    @contextmanager
    def repeated(self, times: int | None) -> Iterator[None]:
        """Code walked once on behalf of many rounds costs many rounds."""
        before = self.multiplicity
        self.multiplicity = before * (times if times is not None else 10)
        self.loops.append(times)
        try:
            yield
        finally:
            self.multiplicity = before
            self.loops.pop()

    # Attributes, elements, calls

    def attribute(self, value: Value, name: str) -> Value:
        """``value.name``."""
        model = ATTRIBUTES.get(type(value))
        return UNKNOWN if model is None else model(self, value, name)  # type: ignore[arg-type]

    def subscript(self, value: Value, key: Value) -> Value:
        """``value[key]``."""
        model = SUBSCRIPTS.get(type(value))
        return UNKNOWN if model is None else model(self, value, key)  # type: ignore[arg-type]

    def store(self, value: Value, key: Value, item: Value) -> None:
        """``value[key] = item``."""
        model = STORES.get(type(value))
        if model is not None:
            model(self, value, key, item)  # type: ignore[arg-type]
        elif isinstance(value, Const) and isinstance(value.value, str | int | float | None | tuple):
            name = type(value.value).__name__
            raise runtime_fault(f"'{name}' object does not support item assignment", "TypeError")

    def store_attribute(self, value: Value, name: str, item: Value) -> None:
        """``value.name = item``."""
        store_attribute(self, value, name, item)

    def delete_item(self, value: Value, key: Value) -> None:
        """``del value[key]``."""
        name = key.value if isinstance(key, Const) else None
        if isinstance(value, Frame) and isinstance(name, str):
            if value.lacks(name):
                raise Fault(Check.FILES_AND_COLUMNS, "KeyError", repr(name))
            value.columns.pop(name, None)
        elif isinstance(value, Dict) and value.items is not None:
            if name not in value.items:
                raise runtime_fault(repr(name), "KeyError")
            value.items.pop(name)

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

    def call(self, function: Value, call: Call) -> Value:
        """Call a value."""
        if isinstance(function, Function):
            return self.call_function(function, call.args, call.kwargs, call.open_ended)
        if isinstance(function, Bound):
            return self._call_method(function, call)
        if isinstance(function, Real):
            return self._call_real(function, call)

        return call_object(self, function, call)

    def call_function(self, function: Function, args: list[Value], kwargs: dict[str, Value], open_ended: bool) -> Value:
        """Walk a function of the script (see `Interpreter`)."""
        raise NotImplementedError("Expressions is completed by Interpreter")

    def _call_method(self, method: Bound, call: Call) -> Value:
        call.callee = method.name.rpartition(".")[2]
        model = METHODS.get((type(method.receiver), method.name))
        if model is not None:
            return model(call, method.receiver)

        return call_unmodelled_method(call, method)

    def _call_real(self, function: Real, call: Call) -> Value:
        if isinstance(function.obj, installed.Opaque):
            return self.outside(call)
        if not callable(function.obj):
            raise api_fault(f"'{type(function.obj).__name__}' object is not callable")
        call.module, _, call.callee = function.name.rpartition(".")
        model = FUNCTIONS.get(function.name)
        if model is not None:
            return model(call)

        return call_unmodelled(call, function)

    def outside(self, call: Call) -> Value:
        """A call into code that is not followed: it may have written the submission if it was told where."""
        for value in [*call.args, *call.kwargs.values()]:
            text = value.value if isinstance(value, Const) else value.literal if isinstance(value, Text) else None
            if isinstance(text, str) and SUBMISSION_PATH.endswith(text.rsplit("/", 1)[-1] or " "):
                self.escaped = True
        return UNKNOWN

    def join(self, a: Value, b: Value) -> Value:
        """A value that is one of the two."""
        return join_values(a, b)

    def weaken(self, value: Value) -> Value:
        """A value of the same kind of which nothing else is known."""
        cells = scalar_cells(value)
        return UNKNOWN if cells is None else Scalar(Cells(cells.kind, missing=False))

    # Containers

    def elements(self, value: Value, at_most: int | None = None) -> list[Value] | None:
        """The elements that iterating yields, None if they are not known one by one (or too many)."""
        found = elements(self, value)
        return None if found is None or (at_most is not None and len(found) > at_most) else found

    def element(self, value: Value) -> Value:
        """A value that stands for every element."""
        return element(self, value)

    def length(self, value: Value) -> int | None:
        """``len(value)``, None if unknown."""
        return length(value)

    def truth(self, value: Value) -> bool | None:
        """``bool(value)``, None if unknown.

        Raises:
            Fault: for data frames and series, which have no truth value.
        """
        if isinstance(value, Const):
            return bool(value.value)
        if isinstance(value, Frame | Series) and not (isinstance(value, Series) and value.rows == 1):
            name = type(value).__name__.replace("Frame", "DataFrame")
            message = f"The truth value of a {name} is ambiguous. Use a.empty, a.bool(), a.item(), a.any() or a.all()."
            raise runtime_fault(message, "ValueError")
        if isinstance(value, Items | Dict):
            size = self.length(value)
            return None if size is None else size > 0
        if isinstance(value, Estimator | Function | Real | Bound):
            return True
        if isinstance(value, Text):
            return True if any(isinstance(part, str) and part for part in value.parts) else None
        if isinstance(value, Array) and value.shape is not None:
            many = value.rows is not None and value.rows > 1
            if many:
                message = "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()"
                raise runtime_fault(message, "ValueError")
        return None

    def hashable(self, value: Value) -> Any:
        """A dictionary key for a constant, None if the value is not one."""
        found = constant(value)
        if found is MISSING:
            return value.obj if isinstance(value, Real) else None
        return found

    def extend_list(self, target: Items, addition: Value) -> None:
        """``target += addition`` for a list."""
        extend(self, target, addition)

    def enter(self, value: Value) -> Value:
        """What ``with value as x`` binds."""
        return value

    def wrap(self, obj: Any, name: str) -> Value:
        """Abstract value of a real object."""
        if isinstance(obj, bool | int | float | str | bytes | None):
            return Const(obj)
        return Real(obj, name)

    def script_class(self, node: ast.ClassDef) -> Value:
        """The class that a ``class`` statement makes."""
        return script_class(self, node)

    def endless(self, reason: str) -> Fault:
        """The timeout that a loop without an end runs into."""
        message = f"execution timed out after {self.budget_seconds:g} s"
        return Fault(Check.COMPUTE_BUDGET, "TimeoutError", message, reason=reason)


class _Collected:
    """Elements of a comprehension, as they come."""

    def __init__(self) -> None:
        self.items: list[Value] = []
        self.known = True
        self.length: int | None = None
