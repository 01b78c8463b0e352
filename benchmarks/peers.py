"""The ways that others do it, on transformers, written with care: no gradients, same dtype and threads."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from utilitune.generator import Continuation, Generation, Prompt
from utilitune.scoring.protocol import Force, Greedy, Request, Rescore, Utility
from utilitune.scoring.work_list import Item


class OneByOne:
    """Answers the requests of utilities one prompt at a time; equal requests are answered once.

    Greedy answers come from ``model.generate(output_scores=True)``, other texts from one more forward pass over prompt
    and text, of which only the needed positions are projected onto the vocabulary.

    Args:
        generator: A ``TransformersGenerator``, for its model, tokenizer and prompt texts; its engine is not used.
    """

    def __init__(self, generator: Any) -> None:
        self._model = generator.model
        self._tokenizer = generator.tokenizer
        self._encode = generator._encode
        self._boundary = generator._boundary
        self._text = generator._answer_text
        self._known: dict[Request, Continuation] = {}

    def utilities(self, items: Sequence[Item], utilities: Sequence[Utility]) -> list[float]:
        """Return the utilities of all items, pair by pair."""
        values = []
        for query, passages in items:
            for utility in utilities:
                asked = utility.requests(query, passages)
                responses = {name: self._answer(request) for name, request in asked.items()}
                values.append(utility.value(query, passages, responses).utility)
        return values

    def _answer(self, request: Request) -> Continuation:
        if request not in self._known:
            if isinstance(request, Greedy):
                self._known[request] = self._greedy(request)
            elif isinstance(request, Rescore):
                self._known[request] = self._score(request.prompt, self._answer(request.of).token_ids)
            elif isinstance(request, Force):
                self._known[request] = self._score(request.prompt, tuple(self._boundary.continuation(request.text)))
            else:
                raise TypeError(f"{type(request).__name__} has no published way here")
        return self._known[request]

    def _greedy(self, request: Greedy) -> Generation:
        prompt = torch.tensor([self._encode(request.prompt).ids], device=self._model.device)
        stop: dict[str, Any] = (
            {"stop_strings": list(request.stop), "tokenizer": self._tokenizer} if request.stop else {}
        )
        with torch.inference_mode():
            out = self._model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=request.max_new_tokens,
                do_sample=False,
                output_scores=True,
                return_dict_in_generate=True,
                **stop,
            )
            ids = out.sequences[0, prompt.shape[1] :].tolist()
            logprobs, entropies = _stats(torch.cat(out.scores), ids)
        ends = self._model.generation_config.eos_token_id
        ended = ids[-1] in (ends if isinstance(ends, list) else [ends])
        own, text = self._text.own(ids, ended, request.stop)
        return Generation(
            text, self._text.surfaces(ids[:own]), tuple(ids[:own]), tuple(logprobs[:own]), tuple(entropies[:own])
        )

    def _score(self, prompt: Prompt, ids: tuple[int, ...]) -> Continuation:
        whole = torch.tensor([[*self._encode(prompt).ids, *ids]], device=self._model.device)
        with torch.inference_mode():
            logits = self._model(whole, use_cache=False, logits_to_keep=len(ids) + 1).logits[0, :-1]
            logprobs, entropies = _stats(logits, ids)
        return Continuation(self._text.decode(ids), self._text.surfaces(ids), ids, tuple(logprobs), tuple(entropies))


def abstention_full_logits(generator: Any, prompts: Sequence[Prompt], firsts: Sequence[int]) -> list[float]:
    """Compute UDCG's utility as its published scorer does: one prompt a forward pass, logits of all positions.

    Args:
        generator: A ``TransformersGenerator``, for its model, tokenizer and prompt texts.
        prompts: The prompts.
        firsts: First tokens of the abstention string's spellings; the likelier one counts.

    Returns:
        ``1 - P(first token)`` a prompt.
    """
    values = []
    with torch.inference_mode():
        for prompt in prompts:
            ids = torch.tensor([generator._encode(prompt).ids], device=generator.model.device)
            chances = generator.model(ids, attention_mask=torch.ones_like(ids)).logits[0, -1].float().softmax(-1)
            values.append(1.0 - float(chances[list(firsts)].max()))
    return values


def samples(generator: Any, prompts: Sequence[Prompt], wanted: Mapping[str, Any], batch: int) -> list[list[int]]:
    """Sample with ``generate(num_return_sequences=n)``, which prefills every prompt n times, ``batch`` prompts at once.

    Args:
        generator: A ``TransformersGenerator``, for its model, tokenizer and prompt texts.
        prompts: The prompts.
        wanted: ``n``, ``temperature``, ``top_p``, ``max_new_tokens``, ``stop``, ``seed``, as ``generate`` takes them.
        batch: Prompts at once, left-padded.

    Returns:
        Ids of each answer, ``n`` a prompt.
    """
    tokenizer, model = generator.tokenizer, generator.model
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    torch.manual_seed(wanted["seed"])
    answers = []
    with torch.inference_mode():
        for start in range(0, len(prompts), batch):
            ids = [generator._encode(prompt).ids for prompt in prompts[start : start + batch]]
            width = max(map(len, ids))
            given = torch.tensor([[pad] * (width - len(row)) + list(row) for row in ids], device=model.device)
            mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in ids], device=model.device)
            out = model.generate(
                given,
                attention_mask=mask,
                do_sample=True,
                num_return_sequences=wanted["n"],
                temperature=wanted["temperature"],
                top_p=wanted["top_p"],
                top_k=0,
                max_new_tokens=wanted["max_new_tokens"],
                stop_strings=list(wanted["stop"]),
                tokenizer=tokenizer,
                pad_token_id=pad,
            )
            answers += out[:, width:].tolist()
    return answers


def harness_loglikelihoods(generator: Any, batch: int) -> Any:
    """Return a function of ``(context, continuation)`` strings on the lm-evaluation-harness ``hf`` backend.

    Args:
        generator: A ``TransformersGenerator``, for its model and tokenizer.
        batch: Requests at once.

    Returns:
        The function, giving a log-likelihood a request.
    """
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    model = HFLM(pretrained=generator.model, tokenizer=generator.tokenizer, batch_size=batch, max_length=2048)

    def run(requests: Sequence[tuple[str, str]]) -> list[float]:
        asked = [
            Instance(request_type="loglikelihood", doc={}, arguments=pair, idx=number)
            for number, pair in enumerate(requests)
        ]
        return [float(value) for value, _ in model.loglikelihood(asked, disable_tqdm=True)]

    return run


def float64_loglikelihoods(generator: Any, requests: Sequence[tuple[str, str]]) -> list[float]:
    """Return the log-likelihood of each ``(context, continuation)`` with the model in double precision, one at a time.

    Weights and matrix products are double; transformers' norms and rotary angles stay single whatever the model is:
    double norms moved a sum over some ten tokens by up to 6e-6 (SmolLM2-135M).

    Args:
        generator: A ``TransformersGenerator``, for its model and tokenizer.
        requests: Texts; the continuation's tokens are those of the whole that the context alone does not have.
    """
    model = copy.deepcopy(generator.model).double()
    found = []
    for context, continuation in requests:
        whole = generator.tokenizer(context + continuation)["input_ids"]
        after = len(generator.tokenizer(context)["input_ids"])
        with torch.inference_mode():
            ids = torch.tensor([whole], device=model.device)
            logits = model(ids, use_cache=False).logits[0, after - 1 : -1].double()
        chosen = ids[0, after:].unsqueeze(-1)
        found.append(float(logits.log_softmax(-1).gather(-1, chosen).sum()))
    return found


def _stats(logits: torch.Tensor, ids: Sequence[int]) -> tuple[list[float], list[float]]:
    logs = logits.float().log_softmax(-1)
    chosen = logs.gather(-1, torch.tensor(ids, device=logs.device).unsqueeze(-1)).squeeze(-1)
    return chosen.tolist(), (-torch.special.xlogy(logs.exp(), logs.exp()).sum(-1)).tolist()
