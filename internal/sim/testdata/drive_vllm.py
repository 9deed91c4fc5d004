"""Drives vLLM's own scheduler without a model and writes down what it did.

usage: drive_vllm.py MODEL_DIR > vllm-VERSION.json

MODEL_DIR holds the config.json of any small decoder-only model; no weights are
read. Each case is a configuration and a script of arrivals and departures by
iteration of the engine's loop. The loop is that of EngineCore.step and
EngineCore.step_with_batch_queue (vllm/v1/engine/core.py), with sampled tokens
made up. For every scheduled batch the output has the tokens given to each
request, the running and the waiting requests in order, who was preempted, how
many tokens were in the cache, and how many blocks are in use.
"""

import json
import os
import random
import sys
from collections import deque

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")

import torch
import vllm
from vllm.config import CacheConfig, ModelConfig, SchedulerConfig, VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import (FullAttentionSpec, KVCacheConfig,
                                        KVCacheGroupSpec)
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.structured_output import StructuredOutputManager

STOP = 1  # token that ends a request early; no other token has this number


def token(request, number, position):
    """The token at a position: of the group up to shared, then its own."""
    stream = 500 + request["group"] if position < request["shared"] else number
    return 10 + stream * 100_000 + position


def build(model_dir, cfg):
    model = ModelConfig(model=model_dir, dtype="bfloat16", seed=0, skip_tokenizer_init=True,
                        max_model_len=cfg["max_model_len"])
    scheduler = SchedulerConfig(
        max_num_seqs=cfg["max_num_seqs"], max_num_batched_tokens=cfg["max_num_batched_tokens"],
        max_model_len=cfg["max_model_len"], enable_chunked_prefill=cfg["chunked_prefill"],
        long_prefill_token_threshold=cfg["long_prefill_token_threshold"], policy=cfg["policy"],
        async_scheduling=cfg["async_scheduling"], is_encoder_decoder=False,
        scheduler_reserve_full_isl=cfg["reserve_full_prompt"])
    cache = CacheConfig(block_size=cfg["block_size"], gpu_memory_utilization=0.9, cache_dtype="auto",
                        enable_prefix_caching=cfg["prefix_caching"])
    vllm_config = VllmConfig(model_config=model, scheduler_config=scheduler, cache_config=cache)
    cache.num_gpu_blocks = cfg["num_blocks"]
    spec = FullAttentionSpec(block_size=cfg["block_size"], num_kv_heads=1, head_size=1, dtype=torch.float32)
    kv = KVCacheConfig(num_blocks=cfg["num_blocks"], kv_cache_tensors=[],
                       kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)])
    cls = AsyncScheduler if cfg["async_scheduling"] else Scheduler
    return cls(vllm_config=vllm_config, kv_cache_config=kv, block_size=cfg["block_size"], log_stats=True,
               structured_output_manager=StructuredOutputManager(vllm_config))


class Driver:
    def __init__(self, model_dir, case):
        self.case = case
        self.scheduler = build(model_dir, case["config"])
        self.depth = 2 if case["config"]["async_scheduling"] else 1
        self.queue = deque()
        self.delivered = [0] * len(case["requests"])
        self.steps = []
        hash_fn = get_hash_fn_by_name("sha256")
        init_none_hash(hash_fn)
        self.hasher = get_request_block_hasher(case["config"]["block_size"], hash_fn)

    def add(self, number):
        r = self.case["requests"][number]
        params = SamplingParams(max_tokens=r["max_tokens"], stop_token_ids=[STOP], ignore_eos=True)
        self.scheduler.add_request(Request(
            request_id=str(number), sampling_params=params, pooling_params=None, arrival_time=float(number),
            prompt_token_ids=[token(r, number, p) for p in range(r["prompt"])], priority=r["priority"],
            block_hasher=self.hasher))

    def sample(self, number):
        r = self.case["requests"][number]
        self.delivered[number] += 1
        if self.delivered[number] == r["output"] and r["output"] < r["max_tokens"]:
            return STOP
        return token(r, number, r["prompt"] + self.delivered[number] - 1)

    def schedule(self):
        s = self.scheduler
        output = s.schedule()
        samples = [i for i in output.num_scheduled_tokens if not s.requests[i].is_prefill_chunk]
        computed = {r.req_id: r.num_computed_tokens for r in output.scheduled_new_reqs}
        cached = output.scheduled_cached_reqs
        computed.update(zip(cached.req_ids, cached.num_computed_tokens))
        pool = s.kv_cache_manager.block_pool
        self.steps.append({
            "scheduled": [[int(i), n, computed[i]] for i, n in output.num_scheduled_tokens.items()],
            "running": [int(r.request_id) for r in s.running],
            "waiting": [int(r.request_id) for r in s.waiting],
            "preempted": sorted(int(i) for i in output.preempted_req_ids),
            "used": pool.num_gpu_blocks - 1 - pool.get_num_free_blocks(),
            "finished": [],
        })
        return output, samples, len(self.steps) - 1

    def complete(self, output, samples, step):
        ids = list(output.num_scheduled_tokens)
        alive = {i for i in ids if i in self.scheduler.requests}
        tokens = [[self.sample(int(i))] if i in samples and i in alive else [] for i in ids]
        result = ModelRunnerOutput(req_ids=ids, req_id_to_index={i: k for k, i in enumerate(ids)},
                                   sampled_token_ids=tokens, logprobs=None, prompt_logprobs_dict={}, pooler_output=[])
        self.scheduler.update_from_output(output, result)
        self.steps[step]["finished"] = sorted(int(i) for i in alive if i not in self.scheduler.requests)

    def iterate(self):
        """One call of the engine's step function."""
        unfinished = self.scheduler.has_unfinished_requests
        if unfinished():
            batch = self.schedule()
            self.queue.append(batch)
            executed = batch[0].total_num_scheduled_tokens > 0
            if len(self.queue) < self.depth and (executed or unfinished()):
                return
        if self.queue:
            self.complete(*self.queue.popleft())

    def run(self):
        requests = self.case["requests"]
        iteration = 0
        while True:
            for number, r in enumerate(requests):
                if r["at"] == iteration:
                    self.add(number)
                if r["cancel"] == iteration:
                    self.scheduler.finish_requests(str(number), RequestStatus.FINISHED_ABORTED)
            self.iterate()
            iteration += 1
            left = any(r["at"] >= iteration for r in requests)
            if not left and not self.queue and not self.scheduler.has_unfinished_requests():
                break
            if iteration > 5000:
                raise RuntimeError(f"{self.case['name']}: no end")
        return self.steps


def config(**changes):
    base = dict(max_num_seqs=8, max_num_batched_tokens=64, max_model_len=256, block_size=4, num_blocks=65,
                chunked_prefill=True, prefix_caching=True, long_prefill_token_threshold=0, policy="fcfs",
                async_scheduling=False, reserve_full_prompt=True)
    return base | changes


def request(at, prompt, output, **changes):
    return dict(at=at, prompt=prompt, output=output, max_tokens=output, priority=0, cancel=-1, group=0, shared=0) | changes


def cases():
    """Situations worth a name, each with and without asynchronous scheduling."""
    named = {
        "one request": (config(), [request(0, 10, 5)]),
        "a prompt larger than the token budget": (config(), [request(0, 150, 3), request(0, 20, 4)]),
        "long prefills are limited": (config(long_prefill_token_threshold=16), [request(0, 100, 3), request(0, 20, 4), request(2, 70, 2)]),
        "more requests than sequences": (config(max_num_seqs=2), [request(0, 8, 3 + i % 3) for i in range(6)]),
        "blocks run out": (config(num_blocks=17, max_model_len=60), [request(0, 16, 20) for _ in range(4)]),
        "blocks run out without prefix caching": (config(num_blocks=17, max_model_len=60, prefix_caching=False), [request(0, 16, 20) for _ in range(4)]),
        "the first chunk fits and the prompt does not": (config(num_blocks=31, max_num_batched_tokens=16, max_model_len=100, reserve_full_prompt=False), [request(0, 60, 8), request(1, 60, 8), request(2, 10, 8)]),
        "the full prompt is reserved": (config(num_blocks=31, max_num_batched_tokens=16, max_model_len=100), [request(0, 60, 8), request(1, 60, 8), request(2, 10, 8)]),
        "a shared prefix within one batch": (config(), [request(0, 24, 4, group=1, shared=16) for _ in range(3)]),
        "a whole prompt is in the cache": (config(), [request(0, 16, 4, group=1, shared=16), request(9, 16, 4, group=1, shared=16), request(9, 16, 4, group=1, shared=16)]),
        "a conversation continues": (config(), [request(0, 20, 12, group=3, shared=32), request(20, 40, 6, group=3, shared=46), request(40, 60, 6, group=3, shared=46)]),
        "a conversation continues from a full block": (config(), [request(0, 20, 13, group=3, shared=70), request(20, 40, 6, group=3, shared=70)]),
        "the priority policy preempts the least important": (config(num_blocks=17, max_model_len=60, policy="priority"), [request(0, 16, 20, priority=i % 3) for i in range(5)]),
        "an important request arrives late": (config(max_num_seqs=2, policy="priority"), [request(0, 8, 9, priority=5), request(0, 8, 9, priority=5), request(0, 8, 9, priority=5), request(3, 8, 9, priority=1)]),
        "requests stop by themselves": (config(), [request(0, 10, 5, max_tokens=30), request(1, 12, 7, max_tokens=9)]),
        "clients leave while running and waiting": (config(max_num_seqs=2), [request(0, 10, 30, cancel=6), request(0, 10, 30), request(1, 10, 8, cancel=4), request(2, 10, 8)]),
        "without chunked prefill": (config(chunked_prefill=False, max_num_batched_tokens=256), [request(0, 200, 3), request(0, 100, 3), request(1, 20, 5)]),
        "a request reaches the model's limit": (config(max_model_len=32), [request(0, 20, 12, max_tokens=12), request(0, 31, 1)]),
        "more running requests than tokens in a step": (config(max_num_batched_tokens=8, max_num_seqs=8), [request(0, 6, 9) for _ in range(8)]),
    }
    for name, (cfg, requests) in named.items():
        for asynchronous in (False, True):
            yield {"name": name + (", asynchronous" if asynchronous else ""),
                   "config": cfg | {"async_scheduling": asynchronous}, "requests": requests}


def random_case(n):
    rng = random.Random(n)
    block_size = rng.choice([4, 8, 16])
    cfg = config(
        block_size=block_size, num_blocks=rng.choice([20, 30, 45]) * 16 // block_size + 1, max_num_seqs=rng.choice([2, 4, 12]),
        max_num_batched_tokens=rng.choice([16, 48, 128]), max_model_len=300, prefix_caching=rng.random() < 0.75,
        long_prefill_token_threshold=rng.choice([0, 0, 24]), policy=rng.choice(["fcfs", "fcfs", "priority"]),
        async_scheduling=rng.random() < 0.5, reserve_full_prompt=rng.random() < 0.6)
    requests, at = [], 0
    for _ in range(rng.randint(5, 24)):
        at += rng.choice([0, 0, 1, 3, 12])
        prompt, output = rng.randint(1, 160), rng.randint(1, 60)
        requests.append(request(
            at, prompt, output, max_tokens=output + rng.choice([0, 0, 7]), priority=rng.randint(0, 3),
            cancel=at + rng.randint(1, 60) if rng.random() < 0.15 else -1,
            group=rng.randint(0, 2), shared=rng.choice([0, prompt // 2, prompt, prompt + output])))
    return {"name": f"random {n}", "config": cfg, "requests": requests}


def main():
    out = {"vllm": vllm.__version__, "cases": []}
    for case in [*cases(), *(random_case(n) for n in range(80))]:
        out["cases"].append(case | {"steps": Driver(sys.argv[1], case).run()})
    json.dump(out, sys.stdout, separators=(",", ":"))


main()
