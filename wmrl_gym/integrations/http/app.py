"""The service as an ASGI application: which address asks what."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Path, Request, Response, Security
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from starlette.exceptions import HTTPException

from wmrl_gym.integrations.http.answers import (
    GroupOutcomes,
    Problem,
    ServiceState,
    StepDraw,
    StepScores,
    Verdict,
)
from wmrl_gym.integrations.http.guard import Guard
from wmrl_gym.integrations.http.refusals import Refusal
from wmrl_gym.integrations.http.service import ScoringService
from wmrl_gym.version import __version__

LARGEST_NUMBER = 2**53 - 1
"""What every reader of JSON keeps exactly."""


def _whole_characters(text: str) -> str:
    """Refuse halves of characters, which JSON can spell: no file, script or database can hold them."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"half a character (a lone surrogate) at position {error.start}") from None
    return text


def _whole_number(value: Any) -> Any:
    """2.0 is 2 in JSON, and some writers spell it so."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Text = Annotated[str, AfterValidator(_whole_characters)]
Name = Annotated[Text, Field(min_length=1, max_length=300)]
Number = Annotated[int, Field(ge=0, le=LARGEST_NUMBER), BeforeValidator(_whole_number)]
Step = Annotated[int, Path(ge=0, le=LARGEST_NUMBER)]


class _Question(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class VerifyRequest(_Question):
    """One trajectory."""

    task: Name
    answer: Text
    """What the agent handed in."""
    step: Number = 0
    group: Name | None = None
    """Trajectories that are compared with each other share it; left out, each answer is a group of its own."""
    member: Number | None = None
    """Number within the group; left out, the answer's content names it."""


class OpenRequest(_Question):
    """The groups of a step."""

    groups: list[Name] = Field(min_length=1, json_schema_extra={"uniqueItems": True})


class GroupRequest(_Question):
    """The answers of one group."""

    group: Name
    task: Name
    answers: list[Text] = Field(min_length=1)


_MEANINGS = {
    400: "Not JSON.",
    401: "The token is missing or wrong.",
    404: "There is no such task, or address.",
    408: "The request arrived too slowly.",
    409: "It contradicts an earlier request, or comes out of order.",
    413: "Too large.",
    422: "It cannot be right.",
    429: "No room now: ask again after Retry-After seconds.",
    500: "A mistake of the service.",
    503: "Not now, and nothing was counted: ask again after Retry-After seconds.",
}
_REFUSALS: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem, "description": meaning} for code, meaning in _MEANINGS.items()
}


def make_app(service: ScoringService, token: str | None = None) -> FastAPI:
    """The application around a service, which it starts and closes.

    Args:
        service: answers; not started yet.
        token: what callers must give as ``Authorization: Bearer …``; None takes requests to a loopback host only.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.close()

    app = FastAPI(
        title="wmrl_gym reward proxy",
        description="Rewards, weights and advantages: most trajectories are predicted, a thin stream is executed.",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,  # its pages load scripts from elsewhere
        redoc_url=None,
    )
    # For the description alone: `Guard` has looked at the token before.
    guarded = APIRouter(dependencies=[Security(HTTPBearer(auto_error=False))], responses=_REFUSALS)
    app.add_middleware(Guard, token=token, limits=service.limits, watch=service.watch)
    _answer_refusals(app)

    @guarded.post("/v1/verify", response_model=Verdict)
    async def verify(asked: VerifyRequest) -> Response:
        """What one trajectory is worth. It is counted once, however often it is asked."""
        return _json(await service.verify(asked.step, asked.group, asked.member, asked.task, asked.answer))

    @guarded.put("/v1/steps/{step}", response_model=StepDraw)
    async def open_step(step: Step, asked: OpenRequest) -> Response:
        """Declare the groups of the next step; answers which of them are anchors."""
        return _json(await service.open_step(step, asked.groups))

    @guarded.post("/v1/steps/{step}/groups", response_model=GroupOutcomes)
    async def hand_in(step: Step, asked: GroupRequest) -> Response:
        """Hand in the answers of one group, in any order of groups: they are predicted, those of an anchor executed."""
        return _json(await service.hand_in(step, asked.group, asked.task, asked.answers))

    @guarded.post("/v1/steps/{step}/score", response_model=StepScores)
    async def score_step(step: Step) -> Response:
        """End a step whose groups are all there: rewards, weights, advantages."""
        return _json(await service.score_step(step))

    @guarded.get("/v1/state", response_model=ServiceState)
    async def state() -> JSONResponse:
        """Which step is open or next, what it waits for, and the proxy's metrics."""
        return JSONResponse(asdict(await service.state()))

    @app.get("/healthz", responses={503: {"model": Problem, "description": "It stops, or its state is lost."}})
    async def healthz() -> JSONResponse:
        """Whether it takes questions. Needs no token."""
        if service.book.broken is not None or service.stopping:
            detail = "it stops" if service.stopping else "its state is lost: see its journal"
            return _problem(503, "unavailable", detail)
        return JSONResponse({"status": "ok"})

    @guarded.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """For Prometheus."""
        return Response(service.watch.exposition(), media_type="text/plain; version=0.0.4; charset=utf-8")

    app.include_router(guarded)
    return app


def _json(text: str) -> Response:
    return Response(text, media_type="application/json")


def _problem(status: int, error: str, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    # Names that are no Unicode may be in it.
    told = detail.encode("utf-8", "backslashreplace").decode()
    return JSONResponse({"error": error, "detail": told}, status, dict(headers or {}))


def _answer_refusals(app: FastAPI) -> None:
    @app.exception_handler(Refusal)
    async def refused(request: Request, refusal: Refusal) -> JSONResponse:
        wait = refusal.retry_after
        return _problem(
            refusal.status, refusal.error, str(refusal), None if wait is None else {"retry-after": str(wait)}
        )

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        # Without the input itself: it may be large, or nothing that JSON can hold.
        found = error.errors()
        told = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in found[:5])
        return _problem(422, "invalid_request", told + (f"; and {len(found) - 5} more" if len(found) > 5 else ""))

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> JSONResponse:
        return _problem(error.status_code, "invalid_request", str(error.detail), error.headers)

    @app.exception_handler(Exception)
    async def mistake(request: Request, error: Exception) -> JSONResponse:
        return _problem(500, "internal", f"{type(error).__name__}: see the service's log")
