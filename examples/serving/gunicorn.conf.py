"""gunicorn's settings: load once, then fork; threads times workers is the number of cores."""

from __future__ import annotations

import os

cores = len(os.sched_getaffinity(0))
threads_per_call = int(os.environ.setdefault("HYBRIDJIT_NUM_THREADS", "1"))

bind = os.environ.get("BIND", "127.0.0.1:8000")
workers = int(os.environ.get("WORKERS", max(1, cores // threads_per_call)))
worker_class = "uvicorn_worker.UvicornWorker"
preload_app = True  # app.py loads and compiles before the fork
timeout = 60  # seconds without a sign of life after which a worker is replaced
graceful_timeout = 30  # seconds that running requests have after SIGTERM
keepalive = 5
