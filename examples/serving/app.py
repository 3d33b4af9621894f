"""A network behind HTTP: FastAPI, batches of concurrent requests, health, metrics, reloading.

    pip install -r examples/serving/requirements.txt
    cd examples/serving
    gunicorn -c gunicorn.conf.py app:app

Settings are environment variables: MODEL (any path that hybridjit.load takes), SHAPE (of one
sample: 1,28,28; several with semicolons: 3,224,224;3,160,160), MAX_BATCH, MAX_DELAY_MS,
MAX_WAITING, RELOAD_SECONDS (0: never).

The module loads and warms up the network when it is imported: with gunicorn's ``preload_app`` this
happens once, before the workers are forked, and these share its memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from batching import Batcher, Overloaded
from fastapi import Body, FastAPI, HTTPException, Request, Response
from model import Model, Refused, memory_stats

DIGITS = Path(__file__).resolve().parent.parent / "digits" / "digits"
MAX_BATCH = int(os.environ.get("MAX_BATCH", "32"))
MAX_DELAY = float(os.environ.get("MAX_DELAY_MS", "0")) / 1e3
MAX_WAITING = int(os.environ.get("MAX_WAITING", "1024"))
RELOAD_SECONDS = float(os.environ.get("RELOAD_SECONDS", "1"))
SHAPE = os.environ.get("SHAPE", "1,28,28")


def shapes_of(text: str) -> list[tuple[int, ...]]:
    """The shapes of samples: sizes with commas between them, shapes with semicolons."""
    try:
        return [tuple(map(int, shape.split(","))) for shape in text.split(";")]
    except ValueError:
        raise SystemExit(
            f"SHAPE is {text!r}, expected as 3,224,224 or 3,224,224;3,160,160"
        ) from None


def ready_model() -> Model:
    """The model, compiled. The process ends if MODEL or SHAPE does not fit."""
    shapes = shapes_of(SHAPE)
    try:
        model = Model(os.environ.get("MODEL", str(DIGITS)), shapes, MAX_BATCH)
    except Refused as error:
        raise SystemExit(f"set MODEL to the path of a network: {error}") from None
    try:
        model.warm_up()
    except Refused as error:
        raise SystemExit(f"the network does not take samples of SHAPE={SHAPE}: {error}") from None
    return model


MODEL = ready_model()


@dataclass
class State:
    """The parts of one worker process."""

    batcher: Batcher
    responses: Counter[int] = field(default_factory=Counter)  # by status
    seconds: float = 0.0  # of all requests for predictions
    reloads: int = 0
    failed_reloads: int = 0
    is_ready: bool = True


@contextlib.asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Start the worker's batcher and reloading; at the end answer the requests that wait."""
    state = app.state.service = State(Batcher(MODEL.predict, MAX_BATCH, MAX_DELAY, MAX_WAITING))
    state.batcher.start()
    reloading = asyncio.create_task(keep_reloading(state)) if RELOAD_SECONDS else None
    yield
    state.is_ready = False
    if reloading is not None:
        reloading.cancel()
    await state.batcher.stop()


async def keep_reloading(state: State) -> None:
    """Look for new parameters. A file that does not fit is counted, and the old ones stay."""
    while True:
        await asyncio.sleep(RELOAD_SECONDS)
        try:
            state.reloads += await asyncio.to_thread(MODEL.reload_if_changed)
        except Exception as error:  # of any kind: the next file may fit
            state.failed_reloads += 1
            print(f"the parameters were not reloaded: {error}", flush=True)


app = FastAPI(title="hybridjit", lifespan=lifespan)


@app.middleware("http")
async def count(request: Request, call_next: Any) -> Response:
    """Count responses and time of predictions."""
    start = time.perf_counter()
    response: Response = await call_next(request)
    if request.url.path.startswith("/predict"):
        state: State = request.app.state.service
        state.responses[response.status_code] += 1
        state.seconds += time.perf_counter() - start
    return response


def checked(rows: np.ndarray) -> np.ndarray:
    """The samples of a request, or status 422."""
    if rows.shape[1:] not in MODEL.shapes or not 1 <= len(rows) <= MAX_BATCH:
        wanted = f"1 to {MAX_BATCH} samples of shape {' or '.join(map(str, MODEL.shapes))}"
        raise HTTPException(422, f"the request takes {wanted}, got an array of shape {rows.shape}")
    return rows


async def predicted(request: Request, rows: np.ndarray) -> np.ndarray:
    try:
        return await request.app.state.service.batcher(checked(rows))
    except Overloaded:
        raise HTTPException(503, "too many requests wait", {"Retry-After": "1"}) from None


@app.post("/predict")
async def predict(request: Request, instances: Annotated[list[Any], Body(embed=True)]) -> Any:
    """JSON: ``{"instances": [sample, ...]}`` to ``{"predictions": [result, ...]}``."""
    try:
        rows = np.asarray(instances, np.float32)
    except (TypeError, ValueError) as error:
        raise HTTPException(422, f"instances is not an array of numbers: {error}") from None
    return {"predictions": (await predicted(request, rows)).tolist()}


@app.post("/predict-npy")
async def predict_npy(request: Request) -> Response:
    """The bytes of a ``.npy`` file, and those of the results. Faster than JSON for images."""
    try:
        rows = np.load(io.BytesIO(await request.body()), allow_pickle=False)
        rows = np.asarray(rows, np.float32)
    except (TypeError, ValueError, EOFError):
        raise HTTPException(422, "the body is not a .npy file of numbers") from None
    found = io.BytesIO()
    np.save(found, await predicted(request, rows))
    return Response(found.getvalue(), media_type="application/octet-stream")


@app.get("/health/live")
async def live() -> dict[str, str]:
    """The process answers: restart it if this fails."""
    return {"status": "live"}


@app.get("/health/ready")
async def ready(request: Request) -> dict[str, str]:
    """The network is compiled and the worker takes requests: route traffic only then."""
    state: State | None = getattr(request.app.state, "service", None)
    if state is None or not state.is_ready:
        raise HTTPException(503, "not ready")
    return {"status": "ready"}


@app.get("/metrics")
async def metrics(request: Request) -> Response:
    """Counters of this worker process in Prometheus' text format."""
    state: State = request.app.state.service
    worker = f'worker="{os.getpid()}"'
    values = {
        "samples_total": state.batcher.samples,
        "batches_total": state.batcher.batches,
        "samples_waiting": state.batcher.waiting,
        "request_seconds_total": state.seconds,
        "reloads_total": state.reloads,
        "failed_reloads_total": state.failed_reloads,
        **{f"memory_{name}": value for name, value in memory_stats().items()},
    }
    lines = [f"hybridjit_{name}{{{worker}}} {value}" for name, value in values.items()]
    lines += [
        f'hybridjit_responses_total{{{worker},status="{status}"}} {number}'
        for status, number in sorted(state.responses.items())
    ]
    return Response("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")
