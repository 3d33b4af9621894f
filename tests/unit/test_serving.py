"""examples/serving: the web service answers on the loopback address, and its batches are right."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import numpy as np
import pytest

import hybridjit
from hybridjit import nd
from patience import PATIENCE, wait_until

ROOT = Path(__file__).parent.parent.parent
SERVING = ROOT / "examples" / "serving"
DIGITS = ROOT / "examples" / "digits"
SERVER = ("fastapi", "uvicorn", "uvicorn_worker", "gunicorn")
RELOADS = int(os.environ.get("SERVING_RELOADS", "24"))  # of the test of reloading under load
MOST_GROWTH = 16 << 20  # bytes of a worker in the second half of these
MISSING = [name for name in SERVER if importlib.util.find_spec(name) is None]
needs_server = pytest.mark.skipif(
    bool(MISSING),
    reason=f"not installed: {', '.join(MISSING)} (see examples/serving/requirements.txt)",
)


def images(count: int) -> np.ndarray:
    return np.random.RandomState(count).rand(count, 1, 28, 28).astype(np.float32)


class Service:
    """gunicorn with two workers on a free port, and its model in a separate folder."""

    def __init__(self, folder: Path, **settings: str) -> None:
        for name in ("digits-symbol.json", "digits-0000.params"):
            shutil.copy(DIGITS / name, folder)
        self.url = f"http://127.0.0.1:{free_port()}"
        self.folder = folder
        self.log = (folder / "log").open("w")
        environment = {
            **{**os.environ, "MODEL": str(folder / "digits"), "BIND": self.url[7:]},
            **{"WORKERS": "2", "RELOAD_SECONDS": "0.1", "HOME": str(folder)},
            **{"HYBRIDJIT_CACHE_DIR": str(folder / "objects"), **settings},
        }
        words = [sys.executable, "-m", "gunicorn", "-c", "gunicorn.conf.py", "app:app"]
        self.process = subprocess.Popen(
            words, cwd=SERVING, env=environment, stdout=self.log, stderr=self.log
        )
        self.wait_until(lambda: self.get("/health/ready")["status"] == "ready")

    def wait_until(self, is_so) -> None:
        for _ in range(9000):
            with contextlib.suppress(OSError):
                if is_so():
                    return
            assert self.process.poll() is None, (self.folder / "log").read_text()
            time.sleep(0.1)
        raise AssertionError((self.folder / "log").read_text())

    def request(self, path: str, body: bytes | None = None, kind: str = "") -> bytes:
        headers = {"Content-Type": kind} if kind else {}
        asked = urllib.request.Request(self.url + path, body, headers)
        with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
            return answer.read()

    def get(self, path: str):
        return json.loads(self.request(path))

    def predict(self, rows: np.ndarray) -> np.ndarray:
        body = json.dumps({"instances": rows.tolist()}).encode()
        found = json.loads(self.request("/predict", body, "application/json"))
        return np.asarray(found["predictions"], np.float32)

    def metric(self, name: str) -> float:
        """The value of the worker that answers."""
        found = re.search(
            rf"^hybridjit_{name}\{{.*\}} (.+)$", self.request("/metrics").decode(), re.M
        )
        assert found, name
        return float(found[1])

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE)
        self.log.close()
        return code


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    made = Service(tmp_path_factory.mktemp("service"))
    yield made
    if made.process.poll() is None:
        made.end()


@needs_server
class TestService:
    def test_concurrent_predictions_are_the_networks(self, service):
        """Bit for bit, in JSON, whatever batches they were in."""
        net = hybridjit.load(str(DIGITS / "digits"))
        data = images(24)
        with hybridjit.threads(1):
            wanted = net(nd.array(data)).asnumpy()
        parts = [slice(start, start + 1 + start % 3) for start in range(20)]
        with ThreadPoolExecutor(8) as clients:
            found = list(clients.map(lambda part: service.predict(data[part]), parts))
        for part, result in zip(parts, found, strict=True):
            np.testing.assert_array_equal(result, wanted[part])

    def test_npy_bodies(self, service):
        body, data = io.BytesIO(), images(3)
        np.save(body, data)
        answer = service.request("/predict-npy", body.getvalue(), "application/octet-stream")
        np.testing.assert_array_equal(np.load(io.BytesIO(answer)), service.predict(data))

    @pytest.mark.parametrize(
        "instances", [[], [[1, 2]], [["a"]], [[[1], [1, 2]]], [[[[0.0] * 28] * 28]] * 33]
    )
    def test_wrong_instances_are_refused_with_422(self, service, instances):
        with pytest.raises(urllib.error.HTTPError) as raised:
            body = json.dumps({"instances": instances}).encode()
            service.request("/predict", body, "application/json")
        assert raised.value.code == 422 and json.loads(raised.value.read())["detail"]

    def test_a_pickle_in_a_npy_body_is_refused(self, service):
        body = io.BytesIO()
        np.save(body, np.array([{}], object), allow_pickle=True)
        with pytest.raises(urllib.error.HTTPError) as raised:
            service.request("/predict-npy", body.getvalue())
        detail = json.loads(raised.value.read())["detail"]
        assert raised.value.code == 422 and detail == "the body is not a .npy file of numbers"

    def test_metrics_count(self, service):
        service.predict(images(2))
        assert service.metric("samples_waiting") == 0
        assert service.metric("memory_resident_bytes") > 0

    def test_replaced_parameters_are_taken_and_wrong_ones_are_not(self, service):
        """Both workers, without a restart."""
        data, path = images(2), service.folder / "digits-0000.params"
        before = service.predict(data)
        arrays = nd.load(str(path))
        arrays = {name: array * 2 for name, array in arrays.items()}
        nd.save(str(service.folder / "new"), arrays)
        os.replace(service.folder / "new", path)
        net = hybridjit.load(str(service.folder / "digits"))
        with hybridjit.threads(1):
            wanted = net(nd.array(data)).asnumpy()
        assert (wanted != before).any()

        def is_new() -> bool:
            return all((service.predict(data) == wanted).all() for _ in range(12))

        service.wait_until(is_new)
        (service.folder / "wrong").write_bytes(b"no parameters")
        os.replace(service.folder / "wrong", path)
        service.wait_until(lambda: service.metric("failed_reloads_total") > 0)
        assert is_new()
        nd.save(str(service.folder / "other"), {f"other_{name}": a for name, a in arrays.items()})
        os.replace(service.folder / "other", path)
        service.wait_until(lambda: service.metric("failed_reloads_total") > 1)
        nd.save(str(service.folder / "new"), arrays)
        os.replace(service.folder / "new", path)
        service.wait_until(lambda: service.metric("reloads_total") > 1)
        assert is_new()

    def test_termination_answers_running_requests(self, tmp_path):
        """Requests that wait for more samples when SIGTERM comes are answered; then all ends."""
        service = Service(tmp_path, MAX_DELAY_MS="2000", WORKERS="1")
        data = images(1)

        def have_arrived() -> bool:
            names = ("samples_total", "samples_waiting")
            return sum(service.metric(name) for name in names) == 4

        with ThreadPoolExecutor(4) as clients:
            found = [clients.submit(service.predict, data) for _ in range(4)]
            service.wait_until(have_arrived)
            assert service.end() == 0
        for each in found:
            assert each.result().shape == (1, 10)

    def test_results_during_reloading_are_of_one_set_of_parameters(self, tmp_path):
        """Bit for bit, for clients that never pause; the worker's memory is bounded."""
        service, data = Service(tmp_path, WORKERS="1"), images(3)
        path, wanted, sizes, ended = service.folder / "digits-0000.params", [], [], Event()
        files = [written(service.folder / name, factor) for name, factor in (("a", 1), ("b", 2))]
        for file in files:
            shutil.copy(file, service.folder / "new")
            os.replace(service.folder / "new", path)
            wanted.append(hybridjit.load(str(service.folder / "digits")).predict(data).tobytes())

        def ask() -> Counter[bytes]:
            answers: Counter[bytes] = Counter()
            while not ended.is_set():
                answers[service.predict(data).tobytes()] += 1
            return answers

        with ThreadPoolExecutor(4) as clients:
            asked = [clients.submit(ask) for _ in range(4)]
            try:
                for number in range(RELOADS):
                    before = service.metric("reloads_total")
                    shutil.copy(files[number % 2], service.folder / "new")
                    os.replace(service.folder / "new", path)
                    service.wait_until(lambda: service.metric("reloads_total") > before)  # noqa: B023
                    sizes.append(service.metric("memory_resident_bytes"))
            finally:
                ended.set()
        found = sum((each.result() for each in asked), Counter())
        assert wanted[0] != wanted[1] and set(found) == set(wanted)
        assert sizes[-1] - sizes[RELOADS // 2] <= MOST_GROWTH, sizes
        assert service.metric("failed_reloads_total") == 0 and service.end() == 0

    def test_a_second_start_compiles_nothing(self, tmp_path):
        """The cache that an image is built with holds all objects."""
        objects = tmp_path / "objects"
        Service(tmp_path).end()
        before = sorted(path.name for path in objects.rglob("*") if path.is_file())
        environment = {
            **{**os.environ, "MODEL": str(tmp_path / "digits"), "HYBRIDJIT_TIMING": "1"},
            **{"HYBRIDJIT_CACHE_DIR": str(objects), "HYBRIDJIT_NUM_THREADS": "1"},
        }
        words = [sys.executable, "-c", "import app"]
        done = subprocess.run(
            words, cwd=SERVING, env=environment, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stderr
        kernels = re.findall(r"^ +[\d.]+ ms  (\w+) .* mr=", done.stderr, re.M)
        assert kernels and set(kernels) == {"cached"}
        assert sorted(path.name for path in objects.rglob("*") if path.is_file()) == before

    @pytest.mark.parametrize(
        ("settings", "wanted"),
        [
            ({"MODEL": "absent"}, "set MODEL to the path of a network: absent: No such file"),
            ({"SHAPE": "28x28"}, "SHAPE is '28x28', expected as 3,224,224"),
            ({"SHAPE": "3,28,28"}, "the network does not take samples of SHAPE=3,28,28: "),
        ],
    )
    def test_a_start_with_wrong_settings_ends_and_names_them(self, settings, wanted):
        done = subprocess.run(
            [sys.executable, "-c", "import app"],
            **{"cwd": SERVING, "env": {**os.environ, **settings}, "timeout": PATIENCE},
            **{"capture_output": True, "text": True},
        )
        assert done.returncode == 1 and done.stderr.startswith(wanted), done.stderr


def written(path: Path, factor: float) -> Path:
    """A file with the digits network's parameters, multiplied."""
    arrays = nd.load(str(DIGITS / "digits-0000.params"))
    nd.save(str(path), {name: array * factor for name, array in arrays.items()})
    return path


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.mark.skipif(
    importlib.util.find_spec("mlserver") is None, reason="not installed: mlserver (a large package)"
)
def test_mlserver_answers_with_the_networks_results(tmp_path):
    """Its own batching joins concurrent requests; the results are those of one sample."""
    shutil.copytree(SERVING / "on_mlserver", tmp_path / "served")
    port = free_port()
    settings = json.loads((SERVING / "on_mlserver" / "settings.json").read_text())
    settings |= {"http_port": port, "grpc_port": free_port(), "metrics_port": free_port()}
    (tmp_path / "served" / "settings.json").write_text(json.dumps(settings))
    model = json.loads((SERVING / "on_mlserver" / "model-settings.json").read_text())
    model["parameters"]["uri"] = str(DIGITS / "digits")
    (tmp_path / "served" / "model-settings.json").write_text(json.dumps(model))
    url, data = f"http://127.0.0.1:{port}/v2/models/digits", images(8)

    def infer(rows: np.ndarray) -> list[float]:
        tensor = {"name": "data", "shape": rows.shape, "datatype": "FP32"}
        body = json.dumps({"inputs": [{**tensor, "data": rows.ravel().tolist()}]}).encode()
        asked = urllib.request.Request(f"{url}/infer", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
            return json.loads(answer.read())["outputs"][0]["data"]

    command = [str(Path(sys.executable).parent / "mlserver"), "start", "."]
    environment = {**os.environ, "HYBRIDJIT_CACHE_DIR": "off", "HYBRIDJIT_NUM_THREADS": "1"}
    server = subprocess.Popen(command, cwd=tmp_path / "served", env=environment)
    try:

        def is_ready() -> bool:
            assert server.poll() is None
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/ready"):
                return True
            return False

        wait_until(is_ready)
        with ThreadPoolExecutor(8) as clients:
            found = list(clients.map(infer, (data[i : i + 1] for i in range(8))))
    finally:
        server.terminate()
        server.wait(PATIENCE)
    with hybridjit.threads(1):
        wanted = hybridjit.load(str(DIGITS / "digits"))(nd.array(data)).asnumpy()
    np.testing.assert_array_equal(np.asarray(found, np.float32), wanted)


def module_of_the_example(name: str, monkeypatch):
    spec = importlib.util.spec_from_file_location(f"serving_{name}", SERVING / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def batching(monkeypatch):
    """The module of the example, which takes no server."""
    return module_of_the_example("batching", monkeypatch)


class TestModel:
    SHAPES = ((1, 28, 28),)

    def test_a_batch_is_computed_as_it_is(self, monkeypatch):
        """Not filled up to a power of two."""
        model = module_of_the_example("model", monkeypatch).Model(
            str(DIGITS / "digits"), self.SHAPES, 8
        )
        sizes, data = [], images(5)
        predict = model._net.predict
        monkeypatch.setattr(
            model._net, "predict", lambda rows: sizes.append(len(rows)) or predict(rows)
        )
        model.warm_up()
        whole = model.predict(data)
        for row, result in zip(data, whole, strict=True):
            np.testing.assert_array_equal(model.predict(row[None])[0], result)
        assert sizes == [1, 2, 4, 8, 5, 1, 1, 1, 1, 1]

    def archive(self, path: Path, factor: float) -> None:
        """The digits network with multiplied parameters, as one file that appears at once."""
        arrays = nd.load(str(DIGITS / "digits-0000.params"))
        nd.save(f"{path}.params", {name: array * factor for name, array in arrays.items()})
        with tarfile.open(f"{path}.new", "w:gz") as tar:
            tar.add(DIGITS / "digits-symbol.json", "model-symbol.json")
            tar.add(f"{path}.params", "model-0000.params")
        os.replace(f"{path}.new", path)

    def test_a_replaced_archive_is_read_again_once(self, tmp_path, monkeypatch):
        path, data = tmp_path / "model.tar.gz", images(3)
        self.archive(path, 1)
        model = module_of_the_example("model", monkeypatch).Model(str(path), self.SHAPES, 4)
        before = model.predict(data)
        assert not model.reload_if_changed()
        self.archive(path, 2)
        assert model.reload_if_changed() and not model.reload_if_changed()
        wanted = hybridjit.load(path).predict(data)
        np.testing.assert_array_equal(model.predict(data), wanted)
        assert (wanted != before).any()

    def test_parameters_with_other_names_are_refused_and_the_old_ones_stay(
        self, tmp_path, monkeypatch
    ):
        path, data = tmp_path / "model.tar.gz", images(3)
        self.archive(path, 1)
        model = module_of_the_example("model", monkeypatch).Model(str(path), self.SHAPES, 4)
        before = model.predict(data)
        names = hybridjit.load(path).collect_params()
        text = (DIGITS / "digits-symbol.json").read_text(encoding="utf-8")
        arrays = nd.load(str(DIGITS / "digits-0000.params"))
        for name in names:
            text = text.replace(f'"{name}"', f'"other_{name}"')
        arrays = {key.replace(":", ":other_"): array for key, array in arrays.items()}
        (tmp_path / "other-symbol.json").write_text(text, encoding="utf-8")
        nd.save(str(tmp_path / "other-0000.params"), arrays)
        with tarfile.open(tmp_path / "new", "w:gz") as tar:
            tar.add(tmp_path / "other-symbol.json", "other-symbol.json")
            tar.add(tmp_path / "other-0000.params", "other-0000.params")
        os.replace(tmp_path / "new", path)
        with pytest.raises(AssertionError, match="is missing in file"):
            model.reload_if_changed()
        np.testing.assert_array_equal(model.predict(data), before)

    @pytest.mark.parametrize("name", ["m", "m-symbol.json", "m-0003.params", ""])
    def test_the_file_of_parameters_of_each_form_of_a_path(self, name, tmp_path, monkeypatch):
        for file in ("m-symbol.json", "m-0003.params"):
            (tmp_path / file).touch()
        found = module_of_the_example("model", monkeypatch).parameters_file(str(tmp_path / name))
        assert os.path.samefile(found, tmp_path / "m-0003.params")


class TestBatcher:
    def test_requests_during_a_call_form_the_next_batch(self, batching):
        sizes = []

        def compute(rows: np.ndarray) -> np.ndarray:
            sizes.append(len(rows))
            time.sleep(0.05)
            return 2 * rows

        async def program() -> list[np.ndarray]:
            batcher = batching.Batcher(compute, max_batch=4)
            batcher.start()
            found = await asyncio.gather(*(batcher(np.full((1, 2), i)) for i in range(7)))
            await batcher.stop()
            return found

        found = asyncio.run(program())
        assert [int(rows[0, 0]) for rows in found] == [0, 2, 4, 6, 8, 10, 12]
        assert sum(sizes) == 7 and max(sizes) == 4 and len(sizes) <= 3

    def test_a_batch_has_samples_of_one_shape_in_their_order(self, batching):
        batches = []

        def compute(rows: np.ndarray) -> np.ndarray:
            batches.append((rows.shape[1:], rows.flat[:: rows[0].size].tolist()))
            return rows

        async def program() -> list[np.ndarray]:
            batcher = batching.Batcher(compute, max_batch=3)
            waits = [batcher(np.full((1, 2 + i % 2), i)) for i in range(8)]
            found = asyncio.gather(*waits)
            await asyncio.sleep(0)
            batcher.start()
            await batcher.stop()
            return await found

        found = asyncio.run(program())
        assert [rows.shape for rows in found] == [(1, 2 + i % 2) for i in range(8)]
        assert batches == [((2,), [0, 2, 4]), ((3,), [1, 3, 5]), ((2,), [6]), ((3,), [7])]

    def test_an_error_reaches_the_requests_of_its_batch_alone(self, batching):
        def compute(rows: np.ndarray) -> np.ndarray:
            if (rows < 0).any():
                raise ValueError("negative")
            return rows

        async def program() -> None:
            batcher = batching.Batcher(compute, max_batch=1)
            batcher.start()
            wrong, right = await asyncio.gather(
                batcher(np.array([-1])), batcher(np.array([1])), return_exceptions=True
            )
            assert isinstance(wrong, ValueError) and right == 1
            await batcher.stop()

        asyncio.run(program())

    def test_a_full_queue_refuses(self, batching):
        async def program() -> None:
            batcher = batching.Batcher(lambda rows: rows, max_batch=2, max_waiting=2)
            waits = asyncio.ensure_future(batcher(np.zeros(2)))
            await asyncio.sleep(0)
            with pytest.raises(batching.Overloaded):
                await batcher(np.zeros(1))
            batcher.start()
            await batcher.stop()  # computes the waiting requests
            assert (await waits).shape == (2,)

        asyncio.run(program())


def test_the_dockerfile_copies_existing_files():
    text = (SERVING / "Dockerfile").read_text(encoding="utf-8")
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.M)
    for name in " ".join(copied).split():
        assert (ROOT / name).exists(), name
    modules = {path.name for path in SERVING.glob("*.py")}
    assert all(f"examples/serving/{name}" in text for name in modules)
