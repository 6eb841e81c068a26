"""Abstract interpretation, statements: walks the script in the order Python would execute it.

Values are abstract (see `values`), so a walk costs milliseconds whatever the script would cost. Where a condition is
unknown both branches are walked and joined; a fault counts only if no path avoids it.
"""

from __future__ import annotations

import ast
import contextlib
import copy
from collections.abc import Callable, Sequence
from typing import Any

from wmrl_gym.scriptcheck import installed
from wmrl_gym.scriptcheck.faults import Fault, runtime_fault
from wmrl_gym.scriptcheck.language.containers import extend
from wmrl_gym.scriptcheck.scope import Scope, join_states, join_values
from wmrl_gym.scriptcheck.values.objects import Function, Instance, Items, Real
from wmrl_gym.scriptcheck.values.scalars import NONE, UNKNOWN, Const, Scalar, Value
from wmrl_gym.scriptcheck.verdicts import Check
from wmrl_gym.scriptcheck.walk.expressions import Expressions
from wmrl_gym.scriptcheck.walk.objects import script_class, store_attribute

UNROLL_AT_MOST = 160
"""Loops over this many known elements are walked one by one, longer ones once."""


class ReturnSignal(Exception):
    """``return``, on its way to the call."""

    def __init__(self, value: Value) -> None:
        super().__init__()
        self.value = value


class BreakSignal(Exception):
    """``break``."""


class ContinueSignal(Exception):
    """``continue``."""


class Interpreter(Expressions):
    """Walks statements; expressions are its base class's part."""

    def run(self, tree: ast.Module) -> Fault | None:
        """Walk a whole script. Returns the fault it dies of, None if it reaches its end."""
        try:
            self.block(tree.body)
        except Fault as fault:
            return fault
        except (ReturnSignal, BreakSignal, ContinueSignal):
            return None
        return None

    def block(self, statements: Sequence[ast.stmt]) -> None:
        """Walk statements in order."""
        for statement in statements:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        """Walk one statement, and leave its line on a fault that passes."""
        self.count_step()
        walker: Callable[[Any], None] | None = getattr(self, f"_on_{type(node).__name__.lower()}", None)
        try:
            if walker is not None:
                walker(node)
        except Fault as fault:
            self.mark(fault, node)
            raise

    # Simple statements

    def _on_expr(self, node: ast.Expr) -> None:
        self.eval(node.value)

    def _on_assign(self, node: ast.Assign) -> None:
        value = self.eval(node.value)
        for target in node.targets:
            self.assign(target, value)

    def _on_annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(node.target, self.eval(node.value))

    def _on_augassign(self, node: ast.AugAssign) -> None:
        load = copy.copy(node.target)
        load.ctx = ast.Load()
        current = self.eval(load)
        addition = self.eval(node.value)
        if isinstance(current, Items) and current.kind == "list" and isinstance(node.op, ast.Add):
            extend(self, current, addition)
            self.assign(node.target, current)
            return
        self.assign(node.target, self.binary(node.op, current, addition))

    def assign(self, target: ast.expr, value: Value) -> None:
        """Bind a value to a name, attribute, element or pattern of these."""
        if isinstance(target, ast.Name):
            self.bind_name(target.id, value)
        elif isinstance(target, ast.Tuple | ast.List):
            self.unpack(target.elts, value)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, value)
        elif isinstance(target, ast.Subscript):
            self.store(self.eval(target.value), self.eval(target.slice), value)
        elif isinstance(target, ast.Attribute):
            store_attribute(self, self.eval(target.value), target.attr, value)

    def unpack(self, targets: list[ast.expr], value: Value) -> None:
        """Bind the elements of a sequence."""
        parts = self.elements(value)
        starred = any(isinstance(t, ast.Starred) for t in targets)
        if isinstance(value, Const) and not isinstance(value.value, str | bytes | tuple):
            raise runtime_fault(f"cannot unpack non-iterable {type(value.value).__name__} object", "TypeError")
        if parts is not None and not starred and len(parts) != len(targets):
            if len(parts) > len(targets):
                message = f"too many values to unpack (expected {len(targets)})"
            else:
                message = f"not enough values to unpack (expected {len(targets)}, got {len(parts)})"
            raise runtime_fault(message, "ValueError", second="TypeError")
        if parts is None or starred:
            parts = [self.element(value)] * len(targets) if not starred else [UNKNOWN] * len(targets)
        for target, part in zip(targets, parts, strict=True):
            self.assign(target, part)

    def _on_delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.eval(ast.copy_location(ast.Name(target.id, ast.Load()), target))
                self.unbind_name(target.id)
            elif isinstance(target, ast.Subscript):
                self.delete_item(self.eval(target.value), self.eval(target.slice))

    def _on_assert(self, node: ast.Assert) -> None:
        if self.truth(self.eval(node.test)) is False:
            message = self.eval(node.msg) if node.msg is not None else None
            text = str(message.value) if isinstance(message, Const) else ""
            raise runtime_fault(text, "AssertionError", reason="the assertion does not hold")

    def _on_raise(self, node: ast.Raise) -> None:
        if node.exc is None:
            if self.handling:
                raise self.handling[-1]
            raise runtime_fault("No active exception to reraise", "RuntimeError")
        value = self.eval(node.exc)
        if isinstance(value, Real) and isinstance(value.obj, type):
            raise runtime_fault("", value.obj.__name__, reason="the script raises it itself")
        if isinstance(value, Instance) and issubclass(value.cls, BaseException):
            raise runtime_fault(
                str(value.facts.get("message", "")), value.cls.__name__, reason="the script raises it itself"
            )
        raise runtime_fault("", "Exception", confidence=0.8, reason="the script raises an exception itself")

    def _on_return(self, node: ast.Return) -> None:
        raise ReturnSignal(NONE if node.value is None else self.eval(node.value))

    def _on_break(self, node: ast.Break) -> None:
        raise BreakSignal

    def _on_continue(self, node: ast.Continue) -> None:
        raise ContinueSignal

    def _on_global(self, node: ast.Global) -> None:
        for name in node.names:
            self.state.scope.outer_names[name] = "global"

    def _on_nonlocal(self, node: ast.Nonlocal) -> None:
        for name in node.names:
            self.state.scope.outer_names[name] = "nonlocal"

    # Imports

    def _on_import(self, node: ast.Import) -> None:
        for alias in node.names:
            found = installed.module(alias.name)
            if alias.asname is not None:
                self.bind_name(alias.asname, Real(found, alias.name))
            else:
                top = alias.name.partition(".")[0]
                self.bind_name(top, Real(installed.module(top), top))

    def _on_importfrom(self, node: ast.ImportFrom) -> None:
        if node.level:
            message = "attempted relative import with no known parent package"
            raise Fault(Check.IMPORTS_AND_NAMES, "ImportError", message)
        if node.module == "__future__":
            return
        owner = installed.module(node.module or "")
        if (node.module or "").startswith("sklearn.experimental"):
            self.experimental = True
        for alias in node.names:
            if alias.name == "*":
                self.import_star(owner, node.module or "")
            elif isinstance(owner, installed.Opaque) or (self.experimental and "Halving" in alias.name):
                self.bind_name(alias.asname or alias.name, UNKNOWN)
            else:
                if alias.name.startswith("enable_"):
                    self.experimental = True
                found = installed.member(owner, node.module or "", alias.name)
                self.bind_name(alias.asname or alias.name, self.wrap(found, f"{node.module}.{alias.name}"))

    def import_star(self, owner: Any, name: str) -> None:
        """Bind all public names of a module."""
        if isinstance(owner, installed.Opaque):
            self.state.scope.open_ended = True
            return
        for public in getattr(owner, "__all__", None) or [n for n in dir(owner) if not n.startswith("_")]:
            try:
                self.bind_name(public, self.wrap(getattr(owner, public), f"{name}.{public}"))
            except (AttributeError, ImportError):
                self.state.scope.open_ended = True

    # Definitions

    def _on_functiondef(self, node: ast.FunctionDef) -> None:
        decorated = [self.eval(decorator) for decorator in node.decorator_list]
        function = self.function_value(node)
        self.bind_name(node.name, UNKNOWN if decorated else function)

    def _on_asyncfunctiondef(self, node: ast.AsyncFunctionDef) -> None:
        self.bind_name(node.name, UNKNOWN)

    def _on_classdef(self, node: ast.ClassDef) -> None:
        self.bind_name(node.name, script_class(self, node))

    # Branches

    def _on_if(self, node: ast.If) -> None:
        verdict = self.truth(self.eval(node.test))
        if verdict is not None:
            self.block(node.body if verdict else node.orelse)
            return
        self.branch(lambda: self.block(node.body), lambda: self.block(node.orelse))

    def branch(self, left: Callable[[], None], right: Callable[[], None]) -> None:
        """Walk two alternatives from the same state and join what they leave.

        If one of them surely faults, the script is taken to go the other way. If one of them leaves (returns, breaks),
        the walk goes on with the other.
        """
        before = copy.deepcopy(self.state)
        left_end = self._attempt(left)
        after_left, self.state = self.state, before
        right_end = self._attempt(right)
        if left_end is None and right_end is None:
            self.state = join_states(after_left, self.state)
        elif right_end is None:
            self._note_departure(left_end)
        elif left_end is None:
            self.state = after_left
            self._note_departure(right_end)
        elif isinstance(right_end, Fault):
            self.state = after_left
            raise left_end
        else:
            if isinstance(left_end, ReturnSignal):
                self.state.scope.returned.append(left_end.value)
            raise right_end

    def _attempt(self, walk: Callable[[], None]) -> Exception | None:
        try:
            walk()
        except (Fault, ReturnSignal, BreakSignal, ContinueSignal) as end:
            return end
        return None

    def _note_departure(self, end: Exception | None) -> None:
        if isinstance(end, ReturnSignal):
            self.state.scope.returned.append(end.value)

    def _on_match(self, node: ast.Match) -> None:
        self.eval(node.subject)
        for case in node.cases:
            self.branch(lambda body=case.body: self.block(body), lambda: None)  # type: ignore[misc]

    def _on_with(self, node: ast.With) -> None:
        for item in node.items:
            entered = self.eval(item.context_expr)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, entered)
        self.block(node.body)

    def _on_try(self, node: ast.Try) -> None:
        try:
            self._guarded(node)
        finally:
            # What the clause does to the state is kept; an exception on its way through goes on by itself.
            self.block(node.finalbody)

    def _guarded(self, node: ast.Try) -> None:
        try:
            self.block(node.body)
        except Fault as fault:
            handler = next((h for h in node.handlers if self._catches(h, fault)), None)
            if handler is None:
                raise
            fault.frames.clear()
            fault.marked.clear()
            self.handle(handler, fault)
            return
        self.block(node.orelse)

    def handle(self, handler: ast.ExceptHandler, fault: Fault) -> None:
        """Walk an ``except`` clause."""
        if handler.name:
            import builtins

            cls = getattr(builtins, fault.exception, Exception)
            self.bind_name(handler.name, Instance(cls, {"message": fault.message}))
        self.handling.append(fault)
        try:
            self.block(handler.body)
        finally:
            self.handling.pop()

    def _catches(self, handler: ast.ExceptHandler, fault: Fault) -> bool:
        if handler.type is None:
            return fault.check is not Check.COMPUTE_BUDGET
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        names = {kind.attr if isinstance(kind, ast.Attribute) else getattr(kind, "id", "") for kind in kinds}
        return fault.caught_by(names)

    # Loops

    def _on_for(self, node: ast.For) -> None:
        iterable = self.eval(node.iter)
        items = self.elements(iterable, at_most=UNROLL_AT_MOST)
        if items is not None:
            self._unroll(node, items)
        else:
            self._repeat(node, iterable)

    def _unroll(self, node: ast.For, items: list[Value]) -> None:
        for item in items:
            self.assign(node.target, item)
            try:
                self.block(node.body)
            except ContinueSignal:
                continue
            except BreakSignal:
                return
        self.block(node.orelse)

    def _repeat(self, node: ast.For, iterable: Value) -> None:
        """Walk the body once, for all of its many rounds."""
        times = self.length(iterable)
        element = self.element(iterable)
        if times == 0:
            return
        self.forget_counters(node.body)
        with self.repeated(times):

            def once() -> None:
                self.assign(node.target, element)
                with contextlib.suppress(ContinueSignal, BreakSignal):
                    self.block(node.body)

            if times is None and not isinstance(iterable, Scalar):
                self.branch(once, lambda: None)
            else:
                once()
        self.block(node.orelse)

    def _on_while(self, node: ast.While) -> None:
        for _ in range(UNROLL_AT_MOST):
            verdict = self.truth(self.eval(node.test))
            if verdict is False:
                self.block(node.orelse)
                return
            if verdict is None or self._leaves(node.body):
                self._loop_once(node)
                return
            if self._changes_nothing(node):
                raise self.endless("the loop's condition stays true and nothing leaves the loop")
            try:
                self.block(node.body)
            except ContinueSignal:
                continue
            except BreakSignal:
                return

    def _loop_once(self, node: ast.While) -> None:
        self.forget_counters(node.body)
        try:
            self.block(node.body)
        except (ContinueSignal, BreakSignal):
            return

    def _leaves(self, body: list[ast.stmt]) -> bool:
        kinds = (ast.Break, ast.Return, ast.Raise)
        return any(isinstance(inner, kinds) for statement in body for inner in ast.walk(statement))

    def _changes_nothing(self, node: ast.While) -> bool:
        """Whether no round can change the condition: it reads constants only, or names no round touches."""
        read = {n.id for n in ast.walk(node.test) if isinstance(n, ast.Name)}
        touched = {n.id for s in node.body for n in ast.walk(s) if isinstance(n, ast.Name)}
        return not read & touched

    def forget_counters(self, body: list[ast.stmt]) -> None:
        """Constants that a round changes are not constant after many rounds."""
        for statement in body:
            for inner in ast.walk(statement):
                targets = [inner.target] if isinstance(inner, ast.AugAssign) else getattr(inner, "targets", [])
                for target in targets if isinstance(inner, ast.AugAssign | ast.Assign) else []:
                    if isinstance(target, ast.Name) and isinstance(self.state.scope.names.get(target.id), Const):
                        old = self.state.scope.names[target.id]
                        self.state.scope.names[target.id] = self.weaken(old)

    def call_function(self, function: Function, args: list[Value], kwargs: dict[str, Value], open_ended: bool) -> Value:
        """Walk a function of the script for one call."""
        if self.depth >= self.deepest or function.node in self.active:
            return UNKNOWN
        scope = Scope(function.name, function.scope, self.local_names(function.node))
        self.bind_parameters(function, scope, args, kwargs, open_ended)
        self.state.scopes.append(scope)
        self.active.append(function.node)
        depth = len(self.state.scopes)
        try:
            return self._body(function)
        finally:
            self.active.pop()
            del self.state.scopes[depth - 1 :]

    def _body(self, function: Function) -> Value:
        if isinstance(function.node, ast.Lambda):
            return self.eval(function.node.body)
        if any(isinstance(n, ast.Yield | ast.YieldFrom) for n in ast.walk(function.node)):
            return Items("generator", None)
        try:
            self.block(function.node.body)
            last: Value = NONE
        except ReturnSignal as signal:
            last = signal.value
        for other in self.state.scope.returned:
            last = join_values(last, other)
        return last
