"""The independent reference: a tiny random model in float64, one prompt at a time, no cache, no batching.

``TinyGenerator`` is a Llama of transformers; ``TinyNumpy`` is one attention layer in NumPy, for processes that must
start fast.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from utilitune.generator.protocol import (
    Continuation,
    Generation,
    GeneratorIdentity,
    Prompt,
    Task,
    TaskResult,
)

CHARACTERS = "\n" + "".join(chr(code) for code in range(32, 127))
END = 0  # id of the end token; character i has id i + 1


def encode(text):
    return [1 + max(CHARACTERS.find(character), 0) for character in text]


def surface(token):
    return "" if token == END else CHARACTERS[token - 1]


class PlainGenerator:
    """Everything but the model: subclasses give ``log_softmax(ids) -> (len(ids), V) array``."""

    def __init__(self, name, seed, window):
        self.identity = GeneratorIdentity(name, f"seed-{seed}", "reference", "float64", max_length=window)
        self.counts = {}
        self.window = window

    def split(self, prompt):
        """The prompt's text, and the spaces at its end, which go before what is scored after it."""
        prompt = Prompt.of(prompt)
        text = prompt.plain or "\n\n".join(content for _, content in prompt.messages)
        return text.rstrip(" "), text[len(text.rstrip(" ")) :]

    def prompt_ids(self, prompt):
        ids = encode(self.split(prompt)[0])
        if len(ids) + 1 > self.window:
            raise ValueError(f"prompt of {len(ids)} tokens, window {self.window}")
        return ids

    def numbers(self, prompt_ids, ids):
        """Everything is read off one plain forward pass over prompt and continuation."""
        if len(prompt_ids) + len(ids) > self.window:
            raise ValueError(f"prompt and answer of {len(prompt_ids) + len(ids)} tokens, window {self.window}")
        rows = self.log_softmax(prompt_ids + ids)[len(prompt_ids) - 1 : -1]
        logprobs = [float(row[token]) for row, token in zip(rows, ids, strict=True)]
        entropies = [-float((np.exp(row) * row).sum()) for row in rows]
        return {
            "text": "".join(map(surface, ids)),
            "tokens": tuple(map(surface, ids)),
            "token_ids": tuple(ids),
            "logprobs": tuple(logprobs),
            "entropies": tuple(entropies),
        }

    def greedy(self, prompt, limit, stop):
        return self.written(self.prompt_ids(prompt), limit, stop, lambda row, step: int(row.argmax()))

    def written(self, start, limit, stop, pick):
        ids, finish = [], "length"
        while len(ids) < limit:
            token = pick(self.log_softmax(start + ids)[-1], len(ids))
            text = "".join(map(surface, [*ids, token]))
            if token == END or any(each in text for each in stop):
                finish = "stop"
                ids = ids or [token]
                break
            ids.append(token)
        return Generation(**self.numbers(start, ids), finish=finish)

    def scored(self, prompt, continuation):
        moved = self.split(prompt)[1]
        ids = encode(moved + continuation) if isinstance(continuation, str) else list(continuation)
        if not ids:
            raise ValueError("empty continuation")
        return Continuation(**self.numbers(self.prompt_ids(prompt), ids))

    def generate(self, prompts, *, max_new_tokens=16, n=1, temperature=0.0, top_p=1.0, stop=(), seed=0):
        if temperature == 0:
            return [[self.greedy(prompt, max_new_tokens, stop)] for prompt in prompts]
        return [
            [self.sampled(prompt, max_new_tokens, stop, temperature, seed, number) for number in range(n)]
            for prompt in prompts
        ]

    def uniforms(self, seed, number, start, limit):
        return np.random.default_rng([seed, number, *start]).random(limit)

    def sampled(self, prompt, limit, stop, temperature, seed, number):
        start = self.prompt_ids(prompt)

        def pick(row, step):
            weights = np.cumsum(np.exp((row - row.max()) / temperature))
            return int((weights <= uniforms[step] * weights[-1]).sum())

        uniforms = self.uniforms(seed, number, start, limit)
        return self.written(start, limit, stop, pick)

    def contrast(self, prompts, others, continuations, *, alpha):
        return [self.contrasted(*each, alpha) for each in zip(prompts, others, continuations, strict=True)]

    def contrasted(self, prompt, other, text, alpha):
        ids = encode(text)
        both = [self.log_softmax(start + ids)[len(start) - 1 : -1] for start in map(self.prompt_ids, (prompt, other))]
        rows = (1 + alpha) * both[0] - alpha * both[1]
        rows = rows - rows.max(axis=1, keepdims=True)
        rows = rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))
        logprobs = [float(row[token]) for row, token in zip(rows, ids, strict=True)]
        return Continuation(text, tuple(map(surface, ids)), tuple(ids), tuple(logprobs), None)

    def score(self, prompts, continuations):
        return [self.scored(*pair) for pair in zip(prompts, continuations, strict=True)]

    def run(self, tasks):
        return [self.one(task) for task in tasks]

    def one(self, task: Task):
        answer = self.greedy(task.prompt, task.max_new_tokens, task.stop) if task.max_new_tokens else None
        return TaskResult(answer, tuple(self.scored(task.prompt, each) for each in task.continuations))


class TinyGenerator(PlainGenerator):
    def __init__(self, seed=0, window=4096):
        import torch
        from transformers import LlamaConfig, LlamaForCausalLM

        super().__init__("tiny", seed, window)
        torch.manual_seed(seed)
        config = LlamaConfig(
            vocab_size=1 + len(CHARACTERS),
            hidden_size=24,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=window,
            initializer_range=0.6,
            attn_implementation="eager",
        )
        self.model = LlamaForCausalLM(config).double().eval()

    def uniforms(self, seed, number, start, limit):
        """The stream of the real sampler; what is done with it is written anew."""
        from utilitune.generator.sampling import Sampler

        return Sampler(1.0, 1.0, seed, number).uniforms(start, limit).numpy()

    def log_softmax(self, ids):
        import torch

        with torch.inference_mode():
            logits = self.model(torch.tensor([ids]), use_cache=False).logits[0]
            return torch.log_softmax(logits, dim=-1).numpy()


class TinyNumpy(PlainGenerator):
    def __init__(self, seed=0, window=4096, width=16):
        super().__init__("tiny-numpy", seed, window)
        draw = np.random.default_rng(seed)
        vocabulary = 1 + len(CHARACTERS)
        self.embed = draw.normal(size=(vocabulary, width))
        self.place = draw.normal(size=(window, width))
        self.query, self.key, self.value = draw.normal(size=(3, width, width)) / width**0.5
        self.head = draw.normal(size=(width, vocabulary))

    def log_softmax(self, ids):
        x = self.embed[ids] + self.place[: len(ids)]
        weights = (x @ self.query) @ (x @ self.key).T
        weights[np.triu_indices(len(ids), 1)] = -np.inf
        weights = np.exp(weights - weights.max(axis=1, keepdims=True))
        x = x + (weights / weights.sum(axis=1, keepdims=True)) @ (x @ self.value)
        logits = x @ self.head
        logits -= logits.max(axis=1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


class Counted:
    """The same generator; every response that it computes is noted, in memory and, line by line, in a file."""

    def __init__(self, inner, log: Path | None = None):
        self.inner = inner
        self.identity = inner.identity
        self.log = log
        self.computed = []
        self.calls = []
        self.sampled = []

    @property
    def counts(self):
        return self.inner.counts

    def run(self, tasks):
        self.calls.append(list(tasks))
        results = self.inner.run(tasks)
        for task in tasks:
            content = [task.prompt.messages, task.prompt.plain]
            if task.max_new_tokens:
                self.note([*content, task.max_new_tokens, task.stop])
            for continuation in task.continuations:
                self.note([*content, continuation])
        return results

    def generate(self, prompts, **settings):
        self.sampled.append((list(prompts), settings))
        return self.inner.generate(prompts, **settings)

    def contrast(self, prompts, others, continuations, *, alpha):
        for each in zip(prompts, others, continuations, strict=True):
            self.note([*(part.plain if isinstance(part, Prompt) else part for part in each), alpha])
        return self.inner.contrast(prompts, others, continuations, alpha=alpha)

    def note(self, what):
        line = json.dumps(what)
        self.computed.append(line)
        if self.log is not None:
            with self.log.open("a") as log:
                log.write(line + "\n")
