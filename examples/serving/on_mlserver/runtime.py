"""A network as a model of MLServer, which batches requests, scales workers and exports metrics.

    pip install mlserver
    cd examples/serving/on_mlserver
    MLSERVER_MODEL_URI=../../digits/digits mlserver start .

``model-settings.json`` has the batching: requests that arrive within ``max_batch_time`` seconds are
joined, up to ``max_batch_size`` samples. Requests follow the Open Inference Protocol:
``POST /v2/models/digits/infer``.
"""

from __future__ import annotations

import asyncio

import numpy as np
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse

import hybridjit
from hybridjit import nd


class Network(MLModel):
    """The network of the files that the setting ``uri`` names."""

    async def load(self) -> bool:
        """Load and compile; MLServer reports the model as ready afterwards."""
        parameters = self.settings.parameters
        assert parameters is not None and parameters.uri is not None, "the setting uri is missing"
        self._net = hybridjit.load(parameters.uri)
        shape = (parameters.extra or {})["shape"]
        for batch in (1, self.settings.max_batch_size):
            self._net(nd.zeros((batch, *shape)))
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """The results of a batch. The call runs in a thread: MLServer's event loop goes on."""
        (given,) = payload.inputs
        rows = np.asarray(NumpyCodec.decode_input(given), np.float32)
        results = await asyncio.to_thread(lambda: self._net(nd.array(rows)).asnumpy())
        return InferenceResponse(
            model_name=self.name,
            outputs=[NumpyCodec.encode_output("output", results)],
        )
