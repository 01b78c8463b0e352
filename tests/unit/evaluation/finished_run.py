"""What a recipe's run leaves behind, made by hand: data, rankings, labels, trainings, answers, evaluation."""

import json
import math

from utilitune.evaluation import Table, evaluate, write_report
from utilitune.records import (
    Answer,
    Dataset,
    Labels,
    Passage,
    Query,
    Run,
    Turn,
    UtilityLabel,
    manifest,
    write_answers,
    write_dataset,
    write_json,
    write_labels,
    write_rows,
    write_run,
)

HOSTILE = (
    "<script>alert(1)</script></style><style>*{display:none}</style><img src=x onerror=alert(1)>"
    '" onmouseover="alert(1)\' &amp; javascript:alert(1) \u202eevil\u200f {{7*7}} {% raw %} $\\frac{ ]]> --> </title> '
)
QUERIES = 12


def hostile(text, on, length=3_000):
    return f"{text} {HOSTILE}{'x' * length}" if on else text


def finished_run(folder, evil=False):
    """Write the folder of a finished recipe; ``evil`` puts markup and 100 kB words into every text."""
    tag = '<b onclick="x">&' if evil else ""
    queries = [
        Query(
            f"q{i}{tag}",
            hostile(f"Where is mill {i}?", evil, 100_000 if i < 2 else 10),
            history=(Turn("user", hostile("Tell me of mills.", evil)), Turn("assistant", "Gladly.")) if i % 2 else (),
            answers=(f"Eke {i}",),
        )
        for i in range(QUERIES)
    ]
    corpus = [
        Passage(
            f"p{i}{tag}",
            hostile(f"Mill {i} lies at Eke {i}.", evil, 100_000 if i < 6 else 10),
            title=hostile(f"Mill {i}", evil, 10),
        )
        for i in range(40)
    ]
    qrels = {query.id: {corpus[i].id: 1.0} for i, query in enumerate(queries)}
    dataset = Dataset(corpus, queries, qrels)
    write_dataset(folder / "data" / "world", dataset)
    runs = {"before": Run(), "after": Run()}
    for i, query in enumerate(queries):
        others = [corpus[12 + (i + j) % 28].id for j in range(4)]
        for name, rank in (("before", i % 4), ("after", 0 if i % 3 else 3)):
            ids = [*others[:rank], corpus[i].id, *others[rank:]]
            runs[name][query.id] = [(pid, 5.0 - place) for place, pid in enumerate(ids)]
    for kind in ("test", "train"):
        write_run(folder / "retrieve" / f"bm25.{kind}.trec", runs["before"])
    write_run(folder / "rerank" / "bm25.trec", runs["after"])
    for name, run in (("untuned", runs["before"]), ("tuned", runs["after"])):
        write_run(folder / "evaluate" / "runs" / f"bm25.{name}.trec", run)
        rows = [{"query_id": query.id, "text": hostile(f"{name} mill", evil)} for query in queries]
        write_rows(folder / "rewrite" / f"{name}.jsonl", rows)
    _labels(folder, runs["before"], corpus, qrels, evil)
    answers = {}
    for name in runs:
        answers[name] = [
            Answer(query.id, (), hostile(f"Eke {i if i % 3 else 99}", evil), False, -0.1 * (1 + i % 5))
            for i, query in enumerate(queries)
        ]
        write_answers(folder / "answer" / f"bm25.{name}.jsonl", answers[name])
    log = [{"step": step, "loss": 0.7 - 0.02 * step, "margin": 0.1 * step, "accuracy": 0.5} for step in range(1, 9)]
    write_json(folder / "train-rewriter" / "training.json", {"log": log, "reading": hostile("learning", evil)})
    marks = [{"query_id": query.id, "mark": hostile("CORRECT", evil, 10), "status": "ok"} for query in queries]
    write_rows(folder / "judge" / "marks.jsonl", marks)
    epochs = [{"epoch": e, "loss": 1 / (e + 1) if e else None, "dev": {"ndcg": 0.5 + 0.1 * e}} for e in range(3)]
    write_json(folder / "train-reranker" / "training.json", {"epochs": epochs, "kept_epoch": 2})
    write_json(folder / "label" / "stage.json", {"stage": "label", "status": "done", "counts": {"truncated": 3}})
    names = {"before": "first stage", "after": "tuned reranker"}
    rewriters = {"before": "untuned rewriter", "after": "tuned rewriter"}
    scored = evaluate(
        dataset,
        {names[name]: run for name, run in runs.items()},
        ["MRR@10", "nDCG@10", "contains"],
        answers={names[name]: own for name, own in answers.items()},
    )
    rewritten = evaluate(dataset, {rewriters[name]: run for name, run in runs.items()}, ["MRR@10"])
    tables = [
        Table(
            "Rewriter",
            ["MRR@10"],
            rewritten.rows(block="bm25"),
            before="untuned rewriter",
            clusters={query.id: hostile(f"c{i // 2}", evil, 10) for i, query in enumerate(queries)},
            pairwise="MRR@10",
        ),
        Table(
            hostile("Reranker", evil)[:300],
            ["MRR@10", "nDCG@10", "contains"],
            scored.rows(block="bm25"),
            before="first stage",
            notes=[hostile("A note.", evil)],
        ),
    ]
    write_report(
        folder / "evaluate",
        tables,
        title=hostile("A run", evil, 100_000),
        counts={"label": {"truncated": 3, "failed": 0}},
        notes=[hostile("Read me.", evil)],
        manifest=manifest(hostile("utilitune run", evil), recipe={"data": "sample"}),
    )
    return folder


def _labels(folder, run, corpus, qrels, evil):
    rows, abstention = [], []
    extra = corpus[-1].id
    for place, (query_id, scored) in enumerate(run.items()):
        for rank, pid in enumerate([*[pid for pid, _ in scored], extra]):
            gold = pid in qrels[query_id]
            tokens = [" Eke", hostile(" there", evil), "."]
            grounded = {"tokens": tokens, "logprobs": [-0.1, -0.5, -0.2]}
            bare = {"tokens": tokens, "logprobs": [-2.1 if gold else -0.2, -0.4, -0.2]}
            evidence = {"grounded": grounded, "grounded_under_bare": bare, "key": {"grounded": [True, False, False]}}
            utility = (2.0 if gold else -0.1 * rank) + 0.01 * place
            rows.append(UtilityLabel(query_id, (pid,), utility, "ok", "information-gain@1", evidence))
            abstention.append(UtilityLabel(query_id, (pid,), 1 / (1 + math.exp(-utility)), "ok", "abstention@1", {}))
    write_labels(folder / "label" / "labels.jsonl", Labels(rows))
    write_labels(folder / "utility" / "labels.jsonl", Labels(abstention))


def parsed(path):
    return json.loads(path.read_text(encoding="utf-8"))
