"""The table of two generators: who labelled the training, and who answers."""

from __future__ import annotations

from dataclasses import replace

from utilitune.evaluation import Row, Table, evaluate
from utilitune.recipe.stages.answer_values import add_values
from utilitune.recipe.stages.reranker_second import OTHERS, OWN, READERS, compared_over, second_file
from utilitune.recipe.stages.reranker_systems import FIRST
from utilitune.recipe.workspace import Workspace
from utilitune.records import read_answers


def second_table(workspace: Workspace) -> list[Table | str]:
    """Return the table, a block for each answering generator, or why there is none."""
    recipe = workspace.recipe
    queries = workspace.queries("test_questions", recipe.reranker.test_queries)
    if not any(query.answers for query in queries):
        return [f"Two generators: none of the {len(queries)} test questions has answers, so they are not compared."]
    asked, ks = workspace.dataset.subset(queries), recipe.evaluation.answer_ks
    names = {"generator": recipe.generator, "second": str(recipe.reranker.second_generator)}
    rows: list[Row] = []
    for reader in READERS:
        block: dict[str, Row] = {}
        for k in ks:
            given = {
                row: read_answers(workspace.folder("answer-second") / second_file(reader, row, k))
                for row in (FIRST, OTHERS, OWN)
            }
            for row in evaluate(asked, {}, ["contains"], answers=given).rows():
                counts = {f"{kind}, top {k}": count for kind, count in row.counts.items()}
                values = {f"contains@{k}": row.values["contains"]}
                add_values(block, [replace(row, values=values, counts=counts)])
        rows += [replace(row, block=f"answered by {names[reader]}") for row in block.values()]
    return [
        Table(
            f"Reranker over {compared_over(workspace)} by generator: who labelled, who answers",
            [f"contains@{k}" for k in ks],
            rows,
            before=OTHERS,
            after=[OWN],
            notes=[
                f"Utility belongs to a model where a reranker helps the generator that labelled for it more than the "
                f"other one's does. The two: {names['generator']} and {names['second']}; labels: "
                f"{', '.join(recipe.reranker.utilities)}."
            ],
        )
    ]
