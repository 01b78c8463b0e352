"""The recipe: one YAML file that names data, models and settings of the whole line."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from utilitune.errors import ConfigError

SAMPLE = Path("sample")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SampleData(_Section):
    """The invented world, made on the spot.

    Attributes:
        passages: Passages in the corpus.
        questions: Stand-alone questions.
        conversations: Conversations of 3-5 turns.
        seed: Seed of the world.
    """

    passages: int = Field(default=400, ge=300)
    questions: int = Field(default=260, ge=1)
    conversations: int = Field(default=100, ge=1)
    seed: int = 7


class Split(_Section):
    """How train and test are told apart.

    Attributes:
        by: ``field`` reads ``split: train|test`` of each query row; ``conversation`` splits by conversation id;
            ``auto`` takes the field when every query has it.
        test: Share of conversations in the test split (``conversation`` only).
    """

    by: Literal["auto", "field", "conversation"] = "auto"
    test: float = Field(default=0.3, gt=0, lt=1)


class Bm25Config(_Section):
    """A BM25 index. ``k1`` and ``b`` as usual; ``engine`` may be the small reference implementation."""

    kind: Literal["bm25"]
    k1: float = Field(default=0.9, ge=0)
    b: float = Field(default=0.4, ge=0, le=1)
    engine: Literal["bm25s", "rank-bm25"] = "bm25s"


class DenseConfig(_Section):
    """A dense index: sentence-transformers ``encoder`` + FAISS ``index``."""

    kind: Literal["dense"]
    encoder: str = "packaged:all-minilm-l6-v2"
    index: Literal["flat", "hnsw", "ivfpq"] = "flat"


RETRIEVERS: dict[str, type[Bm25Config] | type[DenseConfig]] = {"bm25": Bm25Config, "dense": DenseConfig}


class Candidates(_Section):
    """Rewrites to choose from: ``n`` samples, the question, and what ``include`` names."""

    n: int = Field(default=4, ge=1)
    temperature: float = Field(default=0.9, gt=0)
    top_p: float = Field(default=0.95, gt=0, le=1)
    include: list[Literal["greedy", "first-question", "previous-question", "history", "keywords"]] = [
        "first-question",
        "greedy",
    ]


class Reward(_Section):
    """What a rewrite is worth: utility of the passages that it retrieves, for the conversational question.

    Attributes:
        utilities: Utility names; several are put on one scale and averaged. ``gold-rank`` reads the judgements.
        retrievers: Which of the recipe's retrievers count; all when empty.
        fused: Whether one ranking, fused over them by rank, is labelled instead of each one's.
        k: Passages a rewrite and retriever.
        aggregate: From passage utilities to one number; ``expected-mrr`` reads the whole ranking by what the
            passages of all candidates are worth; ``set`` labels the ``k`` passages together.
        scale: The common scale: ``pooled`` (centred within the question, divided by the spread over all questions),
            ``z-score`` or ``rank`` (each question by itself), ``raw`` (none).
    """

    utilities: list[str] = Field(default=["question-gain"], min_length=1)
    retrievers: list[str] = []
    fused: bool = False
    k: int = Field(default=3, ge=1)
    aggregate: Literal["mean", "max", "top-1", "discounted", "expected-mrr", "set"] = "max"
    scale: Literal["pooled", "z-score", "rank", "raw"] = "pooled"

    def reading(self) -> dict[str, Any]:
        """Return how passages become a number, as ``reward_candidates``, ``BestOf`` and ``LiveReward`` name it."""
        return {"k": self.k, "aggregate": self.aggregate, "fused": self.fused}


class Pairs(_Section):
    """Which pairs to make and keep.

    Attributes:
        margin: Least difference of utility.
        keep: Share of the pairs to keep, the widest margins first.
        per_query: Most pairs a question.
        pairing: ``best-worst``, ``all`` or ``best-few``.
        sources: Where both sides may come from (``sample``, ``greedy``, ``original``, or a cheap form); anywhere when
            empty. A text that is both a cheap form's and the model's counts as the form. The other candidates still
            tell what passages are worth; the second round has its own, none of which is the question as typed.
        max_length: Longest prompt + rewrite in tokens.
    """

    margin: float = Field(default=0.0, ge=0)
    keep: float = Field(default=0.5, gt=0, le=1)
    per_query: int = Field(default=1, ge=1)
    pairing: Literal["best-worst", "all", "best-few"] = "best-worst"
    sources: list[
        Literal["sample", "greedy", "original", "first-question", "previous-question", "history", "keywords"]
    ] = []
    max_length: int = Field(default=512, ge=16)


class AdapterSettings(_Section):
    """What the trainings share, as TRL and PEFT name it."""

    lr: float = Field(default=1e-4, gt=0)
    epochs: float = Field(default=2, gt=0)
    batch_size: int = Field(default=4, ge=1)
    gradient_accumulation: int = Field(default=1, ge=1)
    lora_r: int = Field(default=16, ge=1)
    save_every: int = Field(default=50, ge=0)


class SftSettings(AdapterSettings):
    """Imitation of the best rewrites."""


class DpoSettings(AdapterSettings):
    """DPO + LoRA; ``reference`` counts where it starts from the adapter of ``sft``."""

    beta: float = Field(default=0.1, gt=0)
    reference: Literal["start", "base"] = "start"


class GrpoSettings(AdapterSettings):
    """GRPO with the reward's utilities, live, on the training turns; ``max_steps`` -1 is ``epochs``."""

    lr: float = Field(default=2e-5, gt=0)
    epochs: float = Field(default=1, gt=0)
    max_steps: int = Field(default=-1, ge=-1)
    beta: float = Field(default=0.0, ge=0)
    generations: int = Field(default=6, ge=2)
    temperature: float = Field(default=0.9, gt=0)


class ModelSpec(_Section):
    """A model and the revision that it is pinned to."""

    model: str
    revision: str = ""


Method = Literal["sft", "dpo", "grpo"]
Yardstick = Literal["gold-rank", "answer-likelihood"]


class RewriterSection(_Section):
    """The rewriter's stages; they run only where the data holds conversations.

    Attributes:
        enabled: Set to false to leave the rewriter out.
        base: Model to tune, by name or with its revision.
        train_turns: Conversational training turns to use, ``null`` for all.
        test_turns: Conversational test turns to use, ``null`` for all.
        max_new_tokens: Length limit of every rewrite, sampled, untuned and tuned, in tokens.
        candidates: Sampling.
        reward: Reward.
        pairs: Pair building.
        methods: Trainings, each going on from the adapter of the one before; the last one is the tuned rewriter.
        resample: How the rewriter that imitates is sampled again for the pairs of ``dpo``, which are then of what it
            writes itself; ``null`` for the first pairs. It counts where ``methods`` names both.
        sft: Imitation.
        training: DPO.
        grpo: GRPO.
        best_of: Samples a test turn, of the untuned and of the tuned rewriter, of which the reward takes the best; 0
            for no such row.
        yardsticks: Supervised rewards to train by as well (the same candidates, pairs and settings, without ``grpo``).
    """

    enabled: bool = True
    base: str | ModelSpec = "packaged:smollm2-135m-instruct"
    train_turns: int | None = Field(default=None, ge=1)
    test_turns: int | None = Field(default=None, ge=1)
    max_new_tokens: int = Field(default=40, ge=4)
    candidates: Candidates = Candidates()
    reward: Reward = Reward()
    pairs: Pairs = Pairs()
    methods: list[Method] = Field(default=["dpo"], min_length=1)
    resample: Candidates | None = None
    sft: SftSettings = SftSettings()
    training: DpoSettings = DpoSettings()
    grpo: GrpoSettings = GrpoSettings()
    best_of: int = Field(default=0, ge=0)
    yardsticks: list[Yardstick] = []

    @model_validator(mode="after")
    def _in_order(self) -> RewriterSection:
        known = ("sft", "dpo", "grpo")
        if [method for method in known if method in self.methods] != self.methods:
            raise ValueError(f"methods: found {self.methods}, expected some of {', '.join(known)}, in this order, once")
        if self.yardsticks and set(self.methods) == {"grpo"}:
            raise ValueError("yardsticks: they are trained by sft and dpo, and methods names neither")
        if "gold-rank" in self.reward.utilities and ("grpo" in self.methods or self.best_of):
            raise ValueError("reward.utilities: gold-rank reads judgements, which grpo and best_of must do without")
        return self

    @model_validator(mode="after")
    def _can_pair(self) -> RewriterSection:
        for name, sampling, question in (("candidates", self.candidates, 1), ("resample", self.second_round, 0)):
            wanted = set(self.pairs.sources)
            if sampling and wanted:
                made = sampling.n * ("sample" in wanted) + question * ("original" in wanted)
                if made + len(wanted.intersection(sampling.include)) < 2:
                    raise ValueError(
                        f"pairs.sources: found {self.pairs.sources}, of which {name} gives fewer than two texts a "
                        "turn; expected sources that give two, such as [sample, greedy]"
                    )
        return self

    @property
    def second_round(self) -> Candidates | None:
        """How the second round is sampled, ``None`` where there is none."""
        return self.resample if {"sft", "dpo"} <= set(self.methods) else None

    @property
    def base_model(self) -> str:
        """Name of the base."""
        return self.base if isinstance(self.base, str) else self.base.model

    @property
    def base_spec(self) -> str | dict[str, str]:
        """The base as ``load_generator`` and the trainings take it."""
        return self.base if isinstance(self.base, str) else self.base.model_dump(exclude_defaults=True)


class RerankerTraining(_Section):
    """Cross-encoder training.

    Attributes:
        head: What makes the score: ``classification``, a new layer, or ``similarity``, which ranks before training.
        loss: A name of the losses table (``docs/rerankers.md``).
        rescale: How utilities become targets, within a question; ``null`` for the rule that suits the loss.
        relevance: Signs UDCG's utility, which is the one of ``reranker.utilities`` then, by ``gold``, ``answer`` or the
            name of another utility there that stands in for relevance; ``null`` for no sign. Loss ``udcg`` needs it.
        gamma: Weight of distraction where utilities are signed.
        choose_by: What the epoch that is kept is chosen by, on held-out questions: ``nDCG@10``, or ``utility@5``, which
            is UDCG@5 where utilities are signed.
        lr: Learning rate.
        epochs: Passes over the questions.
        batch_pairs: (question, passage) pairs a step.
        max_length: Tokens of question and passage together.
    """

    head: Literal["classification", "similarity"] = "classification"
    loss: str = "listwise-kl"
    rescale: Literal["min-max", "z-score", "rank", "softmax", "none"] | None = None
    relevance: str | None = None
    gamma: float = Field(default=1 / 3, ge=0, le=1)
    choose_by: str = "nDCG@10"
    lr: float = Field(default=1e-4, gt=0)
    epochs: int = Field(default=3, ge=1)
    batch_pairs: int = Field(default=32, ge=1)
    max_length: int = Field(default=256, ge=16)

    @property
    def rule(self) -> str:
        """The rescaling rule: the one given, or the one that suits the loss."""
        from utilitune.rerank import LOSSES

        return self.rescale or LOSSES[self.loss].rule


class WarmUp(_Section):
    """Before any label: the cross-encoder learns to repeat a retriever's order, on questions that no label is spent on.

    Attributes:
        retriever: Whose order; its scores are the targets.
        queries: Training questions, others than the labelled ones as long as there are any.
        epochs: Passes over them.
    """

    retriever: str = "dense"
    queries: int = Field(ge=1)
    epochs: int = Field(default=1, ge=1)


class RerankerSection(_Section):
    """The reranker's stages; they use the stand-alone questions (no history).

    Attributes:
        enabled: Set to false to leave the reranker out.
        base: Encoder whose weights the cross-encoder starts from.
        first_stage: Retriever whose candidates are labelled for training; of several, what any of them finds.
        train_queries: Training questions to use, ``null`` for all.
        test_queries: Test questions to use, ``null`` for all.
        depth: Candidates a question, for labelling and for reranking.
        train_depth: Candidates a training question and first stage to label, ``null`` for ``depth``.
        utilities: Utility names; several are averaged after rescaling within the query.
        training: Training.
        warm_up: What every training starts from instead of ``base``, a row of its own; ``null`` for none.
        rivals: Other labels to train the same reranker by, with the same settings: ``gold`` (the judgements), or
            utility names.
        untrained: Whether the starting weights get a row of their own.
        interpolate: Whether every trained reranker is also shown with the first stage's score added, by the weight
            that its own labels of the held-out training questions choose.
        oracle: Whether the test candidates are labelled by ``utilities`` too: the best order by them, and utility
            and answers of both best orders.
        second_generator: Another generator, for the table of who labelled and who answers.
    """

    enabled: bool = True
    base: str = "packaged:all-minilm-l6-v2"
    first_stage: str | list[str] = "bm25"
    train_queries: int | None = Field(default=None, ge=1)
    test_queries: int | None = Field(default=None, ge=1)
    depth: int = Field(default=10, ge=2)
    train_depth: int | None = Field(default=None, ge=2)
    utilities: list[str] = Field(default=["question-gain"], min_length=1)
    training: RerankerTraining = RerankerTraining()
    warm_up: WarmUp | None = None
    rivals: list[str] = []
    untrained: bool = False
    interpolate: bool = False
    oracle: bool = False
    second_generator: str | None = None

    @model_validator(mode="after")
    def _fits(self) -> RerankerSection:
        if not self.first_stages:
            raise ValueError("first_stage: found an empty list, expected a retriever")
        if self.labelled_depth > self.depth:
            raise ValueError(f"train_depth: found {self.train_depth}, expected at most depth ({self.depth})")
        if len({*self.rivals}) < len(self.rivals):
            raise ValueError(f"rivals: found {', '.join(self.rivals)}, expected each of them once")
        return self

    @property
    def trained_utilities(self) -> list[str]:
        """The utilities that become targets: all but one that stands in for relevance."""
        return [name for name in self.utilities if name != self.training.relevance]

    @property
    def first_stages(self) -> list[str]:
        """The retrievers whose candidates are labelled for training, each once."""
        return [self.first_stage] if isinstance(self.first_stage, str) else list(dict.fromkeys(self.first_stage))

    @property
    def labelled_depth(self) -> int:
        """Candidates of a training question and first stage that are labelled."""
        return self.train_depth or self.depth


class EvaluationSection(_Section):
    """What is measured.

    Attributes:
        rewriter_measures: Retrieval measures of the rewriter table.
        reranker_measures: Retrieval measures of the reranker table, next to UDCG and answer accuracy.
        transfer: BEIR folders with conversations whose turns the rewriters meet untouched: a table each.
        transfer_turns: Turns of each, ``null`` for all.
        udcg_k: Depth of UDCG; 0 leaves it out (it needs one prompt a passage).
        theta_queries: Training questions that UDCGθ is fitted on, at the depth of UDCG; 0 leaves it out.
        answer_k: Passages in the answering prompt; several are a column each, 0 leaves answers out.
        distraction: Whether the share of answers that a distractor made wrong is measured.
        rewriter_answer_k: The same for the test turns, with what the untuned and the tuned rewriter find.
    """

    rewriter_measures: list[str] = Field(default=["MRR@10", "nDCG@10", "R@10"], min_length=1)
    reranker_measures: list[str] = Field(default=["MRR@10", "nDCG@10"], min_length=1)
    transfer: list[Path] = []
    transfer_turns: int | None = Field(default=None, ge=1)
    udcg_k: int = Field(default=5, ge=0)
    theta_queries: int = Field(default=0, ge=0)
    answer_k: int | list[int] = 3
    distraction: bool = False
    rewriter_answer_k: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _told_apart(self) -> EvaluationSection:
        names = [path.name for path in self.transfer]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"transfer: two folders are named {twice[0]!r}, which tells them apart; rename one")
        if bad := {"", "..", "runs"} & {*names}:
            raise ValueError(f"transfer: found the name {min(bad)!r}, expected that of a data set; rename the folder")
        asked = self.answer_k if isinstance(self.answer_k, list) else [self.answer_k or 1]
        if not asked or min(asked) < 1:
            raise ValueError(f"answer_k: found {self.answer_k}, expected a number of passages, several (>= 1), or 0")
        if self.theta_queries and not self.udcg_k:
            raise ValueError("theta_queries: UDCGθ is measured at the depth of UDCG, and udcg_k is 0")
        return self

    @property
    def answer_ks(self) -> list[int]:
        """Passages in the answering prompts, as asked for, each once; empty without answers."""
        asked = [self.answer_k] if isinstance(self.answer_k, int) else self.answer_k
        return [k for k in dict.fromkeys(asked) if k]


class Recipe(_Section):
    """A whole line, from a corpus and unlabelled questions to a report.

    Attributes:
        name: Shown in the report.
        about: One line on what the recipe shows.
        seed: Seed of everything random but the sample world.
        out: Output folder, relative to the working directory.
        data: BEIR folder, or ``sample`` for the invented world.
        on_bad_line: ``error`` stops at bad lines of the data and lists them; ``skip`` leaves them out and counts them.
        sample: Size of the invented world.
        split: Train and test.
        generator: The LLM whose utility is the supervision.
        retrievers: Named retrievers; every table has a block for each.
        rewriter: Rewriter stages.
        reranker: Reranker stages.
        evaluation: Measurement.
    """

    name: str
    about: str = ""
    seed: int = 13
    out: Path
    data: Path
    on_bad_line: Literal["error", "skip"] = "error"
    sample: SampleData = SampleData()
    split: Split = Split()
    generator: str = "packaged:smollm2-135m-instruct"
    retrievers: dict[str, Annotated[Bm25Config | DenseConfig, Field(discriminator="kind")]] = Field(min_length=1)
    rewriter: RewriterSection = RewriterSection()
    reranker: RerankerSection = RerankerSection()
    evaluation: EvaluationSection = EvaluationSection()

    @model_validator(mode="after")
    def _names_exist(self) -> Recipe:
        known = ", ".join(self.retrievers)
        for name in self.reranker.first_stages if self.reranker.enabled else ():
            if name not in self.retrievers:
                raise ValueError(f"reranker.first_stage: found {name!r}, expected one of: {known}")
        warm_up = self.reranker.warm_up if self.reranker.enabled else None
        if warm_up and warm_up.retriever not in self.retrievers:
            raise ValueError(f"reranker.warm_up.retriever: found {warm_up.retriever!r}, expected one of: {known}")
        for name in self.rewriter.reward.retrievers:
            if name not in self.retrievers:
                raise ValueError(f"rewriter.reward.retrievers: found {name!r}, expected one of: {known}")
        return self

    def value(self, key: str) -> Any:
        """Return the JSON-ready value of a key such as ``generator`` or ``rewriter.pairs``."""
        value: Any = self.model_dump(mode="json")
        for part in key.split("."):
            value = value[part]
        return value

    @classmethod
    def load(cls, path: Path | str, overrides: Sequence[str] = ()) -> Recipe:
        """Read a recipe, apply ``key.path=value`` overrides, check everything; no code that it names is run.

        Args:
            path: YAML file.
            overrides: ``--set`` values such as ``rewriter.training.lr=5e-5``; the value is read as YAML.

        Returns:
            The checked recipe.

        Raises:
            ConfigError: If the file cannot be read or anything in it is wrong; all problems are listed at once.
        """
        path = Path(path)
        try:
            raw = yaml.safe_load(path.read_text(encoding="utf-8-sig"))
        except FileNotFoundError:
            raise ConfigError(f"{path}: no such recipe; `utilitune run --help` shows an example") from None
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read ({error.strerror}); expected a recipe file") from None
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path}: not UTF-8 ({error.reason} at byte {error.start}); save it as UTF-8") from None
        except yaml.YAMLError as error:
            raise ConfigError(f"{path}: not valid YAML: {error}") from None
        if not isinstance(raw, dict):
            raise ConfigError(f"{path}: found {type(raw).__name__}, expected a mapping with the recipe's keys")
        for override in overrides:
            _apply(raw, override)
        try:
            recipe = cls.model_validate(raw)
        except ValidationError as error:
            raise ConfigError(f"{path}: {_explain(error)}") from None
        from utilitune.recipe.checks import problems

        found = problems(recipe)
        if found:
            raise ConfigError(f"{path}: {len(found)} problem(s)\n" + "\n".join(f"  {problem}" for problem in found))
        return recipe


def _apply(raw: dict[str, Any], override: str) -> None:
    """Set one ``key.path=value`` in place."""
    key, equals, value = override.partition("=")
    if not equals or not key:
        raise ConfigError(f"--set {override}: expected key=value, for example --set rewriter.training.epochs=1")
    *parents, last = key.strip().split(".")
    node = raw
    for parent in parents:
        node = node.setdefault(parent, {})
        if not isinstance(node, dict):
            raise ConfigError(f"--set {override}: {parent!r} holds a value, not settings")
    try:
        node[last] = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ConfigError(f"--set {override}: the value is not valid YAML: {error}") from None


def _explain(error: ValidationError) -> str:
    """All problems, one line each: where, what was found, what was expected."""
    lines = []
    for problem in error.errors():
        place = problem["loc"]
        # Pydantic puts the kind of a retriever, which is no key, between its name and its settings.
        keys = place[:2] + place[3:] if place[:1] == ("retrievers",) else place
        where = ".".join(str(part) for part in keys) or "recipe"
        if problem["type"] == "union_tag_invalid":
            lines.append(f"  {where}.kind: found {problem['ctx']['tag']!r}, expected {' or '.join(RETRIEVERS)}")
        elif problem["type"] == "union_tag_not_found":
            lines.append(f"  {where}.kind: missing; expected {' or '.join(RETRIEVERS)}")
        elif problem["type"] == "extra_forbidden":
            close = difflib.get_close_matches(str(place[-1]), _known_keys(place[:-1]), n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            lines.append(f"  {where}: unknown key{hint}")
        elif problem["type"] == "missing":
            lines.append(f"  {where}: missing")
        else:
            lines.append(f"  {where}: {problem['msg']} (found {problem.get('input')!r})")
    return f"{len(lines)} problem(s)\n" + "\n".join(lines)


def _known_keys(location: tuple[int | str, ...]) -> list[str]:
    if location[:1] == ("retrievers",):
        return list(RETRIEVERS[str(location[2])].model_fields) if len(location) == 3 else []
    model: type[BaseModel] = Recipe
    for part in location:
        field = model.model_fields.get(str(part))
        annotation = field.annotation if field else None
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        model = annotation
    return list(model.model_fields)
