"""Questions of a correlation study, what each system found for them, and what is relevant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from utilitune.errors import ConfigError, DataError
from utilitune.evaluation.classical import check_grades
from utilitune.evaluation.ranking import ranking
from utilitune.evaluation.relevance import CONTAINS, JUDGED, Relevance, check_relevance, qrels_by_containment
from utilitune.evaluation.study.signal_cases import content, draw
from utilitune.records.dataset import Dataset
from utilitune.records.label import Labels
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.records.run import Run
from utilitune.retrieval.protocol import Retriever
from utilitune.scoring.answer_match import usable_golds

System = Run | Retriever


@dataclass(frozen=True)
class Found:
    """What the systems found for the questions of a study.

    Attributes:
        dataset: The questions in seeded order, the whole corpus, judgements by the chosen relevance.
        passages: ``{system: {query_id: passages in rank order}}``.
        level: Grade from which a passage is relevant.
        counts: What was used, left out and fell short, by kind.
    """

    dataset: Dataset
    passages: dict[str, dict[str, tuple[Passage, ...]]]
    level: float
    counts: dict[str, int]

    @property
    def queries(self) -> list[Query]:
        """The questions, in seeded order."""
        return self.dataset.queries

    def relevant(self, query_id: str) -> set[str]:
        """Return the ids of the passages that are relevant to a question."""
        grades = self.dataset.qrels.get(query_id, {})
        return {passage_id for passage_id, grade in grades.items() if grade >= self.level}


def find_passages(
    dataset: Dataset,
    systems: Mapping[str, System],
    depth: int,
    *,
    limit: int | None,
    seed: int,
    relevance: Relevance,
    level: float,
) -> Found:
    """Choose questions and search for them.

    A question needs a gold answer, and with judged relevance a relevant passage in the corpus, with relevance by labels
    a label. Retrievers search with
    the human rewrite of a conversational turn, else with its first and last question. The order of questions depends
    on ``seed`` and texts alone, and a larger limit extends a smaller one.

    Args:
        dataset: Corpus, questions with gold answers, judgements (made of the labels where those tell relevance).
        systems: Retriever or ready run by name.
        depth: Passages a question and system.
        limit: Questions at most; all when ``None``.
        seed: Seed of the order.
        relevance: ``"judged"``; ``"contains"``: a retrieved passage is relevant if its text contains a gold answer; or
            labels.
        level: Grade from which a judged passage is relevant.

    Returns:
        Questions, passages and counts.

    Raises:
        ConfigError: For no system, an unknown relevance or a limit below 1.
        DataError: If no question is left, a run has none of them, or a passage of a run is not in the corpus.
    """
    if not systems:
        raise ConfigError("no retriever was given; name at least one, such as bm25")
    check_relevance(relevance, None)
    if limit is not None and limit < 1:
        raise ConfigError(f"limit is {limit}; expected at least 1 question")
    counts: Counter[str] = Counter()
    chosen = _chosen(dataset, relevance, level, limit, seed, counts)
    corpus = dataset.passages()
    passages = {name: _search(name, system, chosen, corpus, depth, counts) for name, system in systems.items()}
    kept = dataset.subset(chosen)
    if relevance == CONTAINS:
        shown = ((query, [each for own in passages.values() for each in own[query.id]]) for query in chosen)
        kept = replace(kept, qrels=qrels_by_containment(shown))
    if isinstance(relevance, Labels):
        pairs = {(query.id, each.id) for query in chosen for own in passages.values() for each in own[query.id]}
        counts["retrieved passages without a relevance label (irrelevant)"] = sum(
            passage_id not in kept.qrels[query_id] for query_id, passage_id in pairs
        )
    if relevance != JUDGED:
        counts["questions without a relevant passage (not in nDCG)"] = sum(
            not any(grades.values()) for grades in kept.qrels.values()
        )
    return Found(kept, passages, level, dict(counts))


def _chosen(
    dataset: Dataset, relevance: Relevance, level: float, limit: int | None, seed: int, counts: Counter[str]
) -> list[Query]:
    counts["questions"] = len(dataset.queries)
    check_grades(dataset.qrels)
    ids = {passage.id for passage in dataset.corpus}
    kept = []
    for query in dataset.queries:
        grades = dataset.qrels.get(query.id, {})
        judged = any(grade >= level and passage_id in ids for passage_id, grade in grades.items())
        answered = bool(usable_golds(query.answers))
        counts["questions without a gold answer"] += not answered
        if isinstance(relevance, Labels):
            counts["questions without a relevance label"] += answered and not grades
        else:
            counts["questions without a relevant passage in the corpus"] += answered and not judged
        if answered and (relevance == CONTAINS or (grades if isinstance(relevance, Labels) else judged)):
            kept.append(query)
    if not kept and isinstance(relevance, Labels):
        raise DataError(
            f"none of {len(dataset.queries)} questions can be studied: "
            f"{counts['questions without a gold answer']} have no gold answer, "
            f"{counts['questions without a relevance label']} no label of the utility that stands for relevance; label "
            "what is retrieved for them"
        )
    if not kept:
        raise DataError(
            f"none of {len(dataset.queries)} questions can be studied: "
            f"{counts['questions without a gold answer']} have no gold answer, "
            f"{counts['questions without a relevant passage in the corpus']} no relevant passage in the corpus; give "
            "'answers' in queries.jsonl and qrels.tsv, or relevance='contains' (--relevance contains)"
        )
    kept.sort(key=lambda query: (draw(seed, content(query)), query.id))
    counts["questions beyond the limit"] = max(0, len(kept) - (limit or len(kept)))
    kept = kept[:limit]
    counts["questions studied"] = len(kept)
    return kept


def _search(
    name: str,
    system: System,
    queries: list[Query],
    corpus: Mapping[str, Passage],
    depth: int,
    counts: Counter[str],
) -> dict[str, tuple[Passage, ...]]:
    if isinstance(system, Mapping):
        run: Mapping[str, list[tuple[str, float]]] = system
        missing = sum(query.id not in run for query in queries)
        counts[f"{name}: questions that the run lacks"] = missing
        if missing == len(queries):
            raise DataError(
                f"run {name!r} has none of the {len(queries)} questions of the study, such as {queries[0].id!r}; check "
                "that run and data are of the same set"
            )
    else:
        run = system.search_texts({query.id: query.rewrite or query.first_and_last for query in queries}, depth)
    found = {}
    for query in queries:
        ids = [passage_id for passage_id, _ in ranking(run.get(query.id, ()))[:depth]]
        lost = next((passage_id for passage_id in ids if passage_id not in corpus), None)
        if lost is not None:
            raise DataError(
                f"passage {lost!r} of run {name!r} for question {query.id!r} is not in the corpus; check that run and "
                "corpus are of the same data set"
            )
        found[query.id] = tuple(corpus[passage_id] for passage_id in ids)
        counts[f"{name}: questions without any passage"] += not ids
        counts[f"{name}: questions with fewer than {depth} passages"] += 0 < len(ids) < depth
    return found
