"""Log-probabilities of two completions of one prompt, on CPU, without the work that is thrown away.

TRL runs every pair as two rows, prompt and all, and off CUDA projects every position onto the vocabulary. A rewriter's
prompt is some fifteen times as long as its answer, so the prompt is run once a pair here (see ``shared_prompt``) and
only the answers' positions meet the vocabulary. Measured on the first batch against the plain way, and dropped when
the model does not agree.
"""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any

import torch

from utilitune.progress import say
from utilitune.rewrite.shared_prompt import pack

# Anything that changes logits after the projection is left to TRL.
_UNUSUAL = ("final_logit_softcapping", "logit_scale", "output_multiplier", "lm_head_multiplier", "logits_scaling")
TOLERANCE = 1e-3
"""Largest difference a token, in nats, at which the shared prompt counts as the same arithmetic."""


class PairScores(dict[str, Any]):
    """The fields of TRL's fused output that its DPO loss reads, as attributes and items."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(name) from error


@dataclass
class Sharing:
    """Whether prompts are run once a pair: undecided until the first batch has been run both ways.

    Attributes:
        on: The decision, ``None`` before it.
        difference: Largest difference a token on that batch, in nats.
    """

    on: bool | None = None
    difference: float | None = None


def speed_up(model: Any, *, pairs: bool = True) -> Sharing | None:
    """Let ``model`` score completions the quick way when TRL asks for per-token log-probabilities on CPU.

    Args:
        model: Causal language model that already carries TRL's fused head.
        pairs: Whether the batches are pairs with a common prompt.

    Returns:
        The decision about shared prompts, filled in by the first batch; ``None`` when nothing was changed: for a
        model that scales or caps its logits or mixes experts, or when TRL's forward is not the one known here.
    """
    config = model.config.get_text_config()
    fused = model.forward
    if any(getattr(config, name, None) is not None for name in _UNUSUAL) or hasattr(config, "output_router_logits"):
        return None
    if getattr(fused, "__name__", "") == "_quick_forward" or "fused_lm_head" not in _parameters(fused):
        return None
    sharing = Sharing(on=None if pairs else False)

    def _quick_forward(self: Any, *args: Any, **options: Any) -> Any:
        ids, labels = options.get("input_ids"), options.get("labels")
        asked = options.get("fused_lm_head") and not args and labels is not None
        if not asked or ids is None or ids.device.type != "cpu":
            return fused(*args, **options)
        if sharing.on is None:
            _decide(self, options, sharing)
        return _scores(self, options, shared=bool(sharing.on))

    model.forward = types.MethodType(_quick_forward, model)
    return sharing


def _decide(model: Any, options: dict[str, Any], sharing: Sharing) -> None:
    """Run a batch both ways, and share prompts from now on when the numbers agree."""
    training = model.training
    # Dropout would make the two differ, and its draws would be missing from a run that is resumed later.
    model.eval()
    with torch.no_grad():
        try:
            quick = _scores(model, options, shared=True)["log_probs"]
            plain = _scores(model, options, shared=False)["log_probs"]
            sharing.difference = float((quick - plain).abs().max())
        except (RuntimeError, TypeError, ValueError, IndexError) as error:  # no such mask or no such argument
            say(f"prompts are run twice a pair: the model does not take a packed pair ({type(error).__name__})")
            sharing.on = False
            return
        finally:
            model.train(training)
    sharing.on = sharing.difference <= TOLERANCE
    if not sharing.on:
        say(f"prompts are run twice a pair: sharing them would change a token by {sharing.difference:.2g} nats")


def _scores(model: Any, options: dict[str, Any], *, shared: bool) -> PairScores:
    """Return per-token numbers in TRL's shape (2 x pairs, length - 1); zeros where there is no label."""
    ids, labels = options["input_ids"], options["labels"]
    targets = labels[:, 1:]
    mask = targets != -100
    rest = {
        key: value
        for key, value in options.items()
        if key not in {"fused_lm_head", "labels", "input_ids", "attention_mask", "use_cache"} and value is not None
    }
    packed = pack(ids, options["attention_mask"], labels, model.dtype) if shared else None
    if packed is None:
        hidden = model.base_model(input_ids=ids, attention_mask=options["attention_mask"], use_cache=False, **rest)
        hidden = hidden.last_hidden_state[:, :-1][mask]
    else:
        states = model.base_model(
            input_ids=packed.ids,
            attention_mask=packed.mask,
            position_ids=packed.positions,
            use_cache=False,
            **rest,
        ).last_hidden_state
        hidden = states[packed.rows, packed.columns]
    logits = model.get_output_embeddings()(hidden).float()
    logprobs = torch.log_softmax(logits, dim=-1)
    chosen = logprobs.gather(-1, targets[mask].unsqueeze(-1)).squeeze(-1)
    with torch.no_grad():
        entropy = -(logprobs.exp() * logprobs).sum(-1)
        mean_logits = logits.mean(-1)
        is_top1 = logits.argmax(-1) == targets[mask]

    def spread(values: torch.Tensor) -> torch.Tensor:
        return values.new_zeros(mask.shape).masked_scatter(mask, values)

    log_probs = spread(chosen)
    return PairScores(
        loss=-log_probs.sum() / mask.sum().clamp(min=1),
        log_probs=log_probs,
        entropy=spread(entropy),
        mean_logits=spread(mean_logits),
        is_top1=spread(is_top1),
        log_sum_sq_probs=None,
        label_mask=mask,
        aux_loss=None,
    )


def _parameters(forward: Any) -> tuple[str, ...]:
    code = getattr(getattr(forward, "__func__", forward), "__code__", None)
    return tuple(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]) if code else ()
