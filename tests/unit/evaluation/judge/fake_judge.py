"""A deterministic stand-in for a judge model: knows what it prefers, and how much it likes the first answer."""

import re
from math import exp, log
from zlib import crc32

from utilitune.generator.protocol import Continuation, Generation, GeneratorIdentity, TaskResult

SHOWN = re.compile(r"Answer A: (.*?)\s+Answer B: (.*?)\s+(?:\w+: [^\n]*\s+)*Which answer is better\?$", re.DOTALL)
SHOWN_JSON = re.compile(r"Answer 1:\n(.*?)\n\nAnswer 2:\n(.*?)\n\nJudge", re.DOTALL)


class FakeJudge:
    """Prefers the answer with more words; ``bias`` is added log-odds for whatever stands first."""

    def __init__(self, bias=0.0, replies=None, refuse=(), name="fake"):
        self.identity = GeneratorIdentity(name, "0", "fake", "float64")
        self.counts = {}
        self.bias = bias
        self.replies = replies  # (first, second, attempt) -> text
        self.refuse = refuse
        self.asked = []

    def odds(self, prompt):
        first, second = self.shown(prompt)
        return len(first.split()) - len(second.split()) + self.bias

    def shown(self, prompt):
        text = prompt.messages[-1][1]
        return (SHOWN.search(text) or SHOWN_JSON.search(text)).groups()

    def run(self, tasks):
        for task in tasks:
            if any(word in task.prompt.messages[-1][1] for word in self.refuse):
                raise ValueError("prompt too long")
        self.asked += tasks
        return [
            TaskResult(
                self.written(task.prompt, 0) if task.max_new_tokens else None,
                tuple(self.scored(task.prompt, text) for text in task.continuations),
            )
            for task in tasks
        ]

    def generate(self, prompts, *, n, temperature, top_p, seed, max_new_tokens, stop):
        assert temperature > 0 and n == 1
        return [[self.written(prompt, seed)] for prompt in prompts]

    def scored(self, prompt, text):
        # 90 % of the mass is on the two letters, two thirds of each on the spelling without a space.
        odds = self.odds(prompt) * (1 if text.strip() == "A" else -1)
        p = 0.9 / (1 + exp(-odds)) * (2 / 3 if text == text.strip() else 1 / 3)
        return Continuation(text, (text,), (crc32(text.encode()) % 1000,), (log(p),), (0.1,))

    def written(self, prompt, attempt):
        first, second = self.shown(prompt)
        text = self.replies(first, second, attempt) if self.replies else "A" if self.odds(prompt) > 0 else "B"
        return Generation(text, (text,), (1,), (-0.5,), (0.1,), finish="stop")
