"""Entailment between short answers by a natural-language-inference model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from utilitune.errors import ConfigError
from utilitune.generator.hub_commit import hub_commit
from utilitune.generator.packaged import PREFIX, resolve_model
from utilitune.generator.weights_hash import model_hash

ENTAILMENT = ("entailment", "entail", "entails")
BATCH = 64
Pair = tuple[str, str]


class NliJudge:
    """Probability of entailment between "question answer" strings, the surer of both directions.

    Formula: ``E(r, a) = max(P(r => a), P(a => r))``, with ``P`` the softmax probability of the model's entailment label
    for premise "question answer" and hypothesis "question gold answer"; all in float32. A blank answer entails nothing.
    Source: SePer (arXiv 2503.01478).

    Configuration and labels are read at once, weights when the first pair is judged. Pairs of one length make a batch:
    nothing is ever padded, so a number does not depend on its batch mates.
    """

    def __init__(self, model: str, revision: str | None = None) -> None:
        """Read the model's configuration.

        Args:
            model: Model folder, ``packaged:NAME``, or Hub id.
            revision: Revision on the Hub; ``None`` for the newest.

        Raises:
            ConfigError: If there is no such model, or it is no classifier with an entailment label.
        """
        from transformers import AutoConfig

        self.model = model
        try:
            self._source, self._hub = _located(model, revision)
            config = AutoConfig.from_pretrained(self._source, trust_remote_code=False, **self._hub)
        except (OSError, ValueError) as error:
            raise _unloadable(model, error) from error
        self._entailment, self.labels = _entailment_label(model, config)
        self.revision: str = self._hub["revision"] or model_hash(Path(self._source))
        self._loaded: tuple[Any, Any, int] | None = None

    @property
    def name(self) -> str:
        """``nli:<model>``."""
        return f"nli:{self.model}"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The model, its revision (hash of the files of a folder, commit on the Hub), and the label that is read."""
        return {
            "judge": self.name,
            "judge_revision": self.revision,
            "judge_label": self.labels[self._entailment],
            "judge_text": "question answer",
        }

    def entailed(self, question: str, answers: Sequence[str], golds: Sequence[str]) -> list[list[float]]:
        """Judge every answer against every gold answer; see ``Judge``."""
        said, right = [f"{question} {each}" for each in answers], [f"{question} {each}" for each in golds]
        found = self.probabilities(
            pair
            for ours, answer in zip(said, answers, strict=True)
            if answer.strip()
            for theirs in right
            for pair in ((ours, theirs), (theirs, ours))
        )
        return [
            [
                max(found[ours, theirs], found[theirs, ours]) if answer.strip() else 0.0
                for ours, answer in zip(said, answers, strict=True)
            ]
            for theirs in right
        ]

    def probabilities(self, pairs: Iterable[Pair]) -> dict[Pair, float]:
        """Return ``P(premise => hypothesis)`` in [0, 1] of every distinct (premise, hypothesis).

        Args:
            pairs: Pairs, repeats allowed.

        Returns:
            One probability a distinct pair.

        Raises:
            ValueError: If a pair is longer than the model's window: a cut text would be another text.
            ConfigError: If the weights cannot be loaded or hold no trained classifier.
        """
        unique = list(dict.fromkeys(pairs))
        if not unique:
            return {}
        self._loaded = self._loaded or self._load()
        model, tokenizer, limit = self._loaded
        encoded = tokenizer([premise for premise, _ in unique], [hypothesis for _, hypothesis in unique])
        by_length: dict[int, list[int]] = defaultdict(list)
        for number, ids in enumerate(encoded["input_ids"]):
            if len(ids) > limit:
                raise ValueError(f"judge {self.name}: a pair of {len(ids)} tokens, its window holds {limit}")
            by_length[len(ids)].append(number)
        found: dict[Pair, float] = {}
        for alike in by_length.values():
            for start in range(0, len(alike), BATCH):
                chosen = alike[start : start + BATCH]
                batch = {key: [values[number] for number in chosen] for key, values in encoded.items()}
                found.update(zip((unique[number] for number in chosen), self._scored(model, batch), strict=True))
        return found

    def _scored(self, model: Any, batch: Mapping[str, list[list[int]]]) -> list[float]:
        import torch

        with torch.inference_mode():
            logits = model(**{key: torch.tensor(rows, device=model.device) for key, rows in batch.items()}).logits
            numbers: list[float] = logits.float().softmax(-1)[:, self._entailment].tolist()
        return numbers

    def _load(self) -> tuple[Any, Any, int]:
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        try:
            tokenizer = AutoTokenizer.from_pretrained(self._source, trust_remote_code=False, **self._hub)
            model, report = AutoModelForSequenceClassification.from_pretrained(
                self._source,
                dtype=torch.float32,
                use_safetensors=True,
                trust_remote_code=False,
                output_loading_info=True,
                **self._hub,
            )
        except (OSError, ValueError) as error:
            raise _unloadable(self.model, error) from error
        if report["missing_keys"]:
            raise ConfigError(
                f"judge {self.name} has no trained {', '.join(sorted(report['missing_keys'])[:3])}: its verdicts would "
                "be random; give a model that was trained on natural-language inference"
            )
        if model.config.pad_token_id is None:
            # Nothing is padded; decoders want an id that they can tell the last token by, so one that never occurs.
            model.config.pad_token_id = -1
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return model.to(device).eval(), tokenizer, _window(model, tokenizer)


def _located(model: str, revision: str | None) -> tuple[str | Path, dict[str, Any]]:
    """Return where the model lies, and what ``from_pretrained`` needs to know; a folder never touches the network."""
    found = resolve_model(model)
    folder = Path(found).expanduser()
    if folder.is_dir():
        if revision is not None:
            raise ConfigError(f"judge model {model!r} is a folder and has no revision; leave judge_revision out")
        return folder, {"local_files_only": True, "revision": None}
    if model.startswith((".", "/", "~")) or model.count("/") > 1:
        raise ConfigError(f"judge model folder {model!r} does not exist; give a folder, a Hub id, or {PREFIX}NAME")
    # Weights and tokenizer come from the commit that the parameters name.
    return model, {"local_files_only": False, "revision": hub_commit(model, revision)}


def _entailment_label(model: str, config: Any) -> tuple[int, dict[int, str]]:
    labels = {int(number): str(label) for number, label in config.id2label.items()}
    wanted = [number for number, label in labels.items() if label.casefold() in ENTAILMENT]
    trained = any(each.endswith("ForSequenceClassification") for each in config.architectures or ())
    if len(wanted) != 1 or not trained:
        problem = "is no sequence classifier" if not trained else "has not exactly one entailment label"
        raise ConfigError(
            f"judge model {model!r} {problem}; found architectures {config.architectures}, labels "
            f"{', '.join(labels.values())}; give a model trained on natural-language inference whose config.json names "
            "one label 'entailment' in id2label"
        )
    return wanted[0], labels


def _window(model: Any, tokenizer: Any) -> int:
    """Return how many tokens a pair may have; some models count positions from behind the padding id."""
    import torch

    positions = getattr(model.config, "max_position_embeddings", None) or tokenizer.model_max_length
    tables = [each for each in model.modules() if isinstance(each, torch.nn.Embedding)]
    offset = max(
        (1 + each.padding_idx for each in tables if each.num_embeddings == positions and each.padding_idx is not None),
        default=0,
    )
    return int(min(tokenizer.model_max_length, positions - offset))


def _unloadable(model: str, error: Exception) -> ConfigError:
    return ConfigError(
        f"cannot load judge model {model!r}: {str(error).splitlines()[0]}; give a folder with config.json, tokenizer "
        "and *.safetensors, or a Hub id that can be reached"
    )
