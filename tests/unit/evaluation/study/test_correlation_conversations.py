"""Conversations are drawn, tested and put into folds whole: three turns that say the same are worth one question."""

from dataclasses import replace

import pytest
from correlation_world import Judge, noise, planted, said

from utilitune.evaluation import study_correlation
from utilitune.evaluation.study.correlation.ideal import study_ideal
from utilitune.evaluation.study.correlation.position import position_cases, study_position
from utilitune.evaluation.study.correlation.rank import Draws, by_question, estimate, numbered, share
from utilitune.evaluation.study.correlation.reader import Reader
from utilitune.evaluation.study.correlation.table import correlation_markdown
from utilitune.evaluation.study.correlation.theta import fit_theta, folds_of, theta_by_chance, theta_scores
from utilitune.records import Run

TURNS = 3
PARTS = {"position": 3, "ideal": 2, "resamples": 200}


def thrice(dataset, run, *, told=True):
    """Every question three times; a conversation only where ``told``."""
    names = {query.id: [f"{query.id}_{turn}" for turn in range(TURNS)] for query in dataset.queries}
    queries = [
        replace(query, id=name, metadata={"conversation": query.id} if told else {})
        for query in dataset.queries
        for name in names[query.id]
    ]
    qrels = {name: own for query_id, own in dataset.qrels.items() for name in names[query_id]}
    return replace(dataset, queries=queries, qrels=qrels), Run(
        {name: own for query_id, own in run.items() for name in names[query_id]}
    )


@pytest.fixture(scope="module")
def studies():
    world = planted(20)
    made = {
        "once": world,
        "whole": thrice(*world),
        "apart": thrice(*world, told=False),
    }
    return {name: study_correlation(data, Judge(), {"run": run}, [2, 5], **PARTS) for name, (data, run) in made.items()}


def width(found):
    return found.high - found.low


def test_three_turns_alike_are_worth_one_question(studies):
    """Mid-ranks of tripled rows are those of the rows, times three less one: ρ is the same in every draw."""
    once, whole, apart = (studies[name] for name in ("once", "whole", "apart"))
    for metric in ("UDCG", "nDCG", "mean u", "MRR"):
        for k in (2, 5, None):
            mine, theirs = whole.correlation(metric, k).spearman, once.correlation(metric, k).spearman
            assert (mine.value, mine.low, mine.high) == pytest.approx((theirs.value, theirs.low, theirs.high))
            assert width(apart.correlation(metric, k).spearman) < 0.8 * width(theirs), "as if 60 were independent"
    assert whole.counts["conversations"] == 20
    assert any("the 60 questions are of 20 conversations" in note for note in whole.notes)
    assert "whole conversations drawn" in correlation_markdown(whole)
    for study in (once, apart):
        assert "conversations" not in study.counts
        assert "whole questions drawn" in correlation_markdown(study)
        assert not any("conversations" in note for note in study.notes)


def test_positions_and_ideal_rankings_too(studies):
    once, whole, apart = (studies[name] for name in ("once", "whole", "apart"))
    for part in (
        lambda study: study.position.positions[0].right,
        lambda study: study.ideal.rules[0].right,
    ):
        assert part(whole).value == pytest.approx(part(once).value)
        assert width(part(whole)) == pytest.approx(width(part(once)), rel=0.35)
        assert width(part(apart)) < 0.8 * width(part(whole))
    mine, theirs, loose = (study.ideal.rules[0].right_versus for study in (whole, once, apart))
    assert (mine.clusters, theirs.clusters, mine.n) == (20, None, 60)
    assert mine.p == pytest.approx(theirs.p, abs=0.02)
    assert mine.difference == pytest.approx(theirs.difference)
    assert loose.p <= mine.p


class Falls(Judge):
    """Right where the document with the answer is worth more than .3 for every document before it."""

    def answer(self, documents):
        place = next((place for place, (_, river) in enumerate(documents) if river), 0)
        worth, river = documents[place]
        return said(river if worth > 0.3 * place else "NO-RESPONSE")


def test_the_correlation_of_places_too():
    """As above, over questions and places."""
    dataset, run = planted(20)
    tripled, _ = thrice(dataset, run)
    clusters = {query.id: query.conversation for query in tripled.queries}
    once = study_position(position_cases(dataset, 3), Reader(Falls()), length=3).spearman
    whole = study_position(position_cases(tripled, 3), Reader(Falls()), length=3, clusters=clusters).spearman
    apart = study_position(position_cases(tripled, 3), Reader(Falls()), length=3).spearman
    assert once.value > 0.2
    assert (whole.value, whole.low, whole.high) == pytest.approx((once.value, once.low, once.high))
    assert width(apart) < 0.8 * width(whole)


def test_turns_of_a_conversation_share_a_fold_that_has_not_seen_them():
    lists = [replace(each, query_id=f"{each.query_id}_{turn}") for each in noise(1, n=20) for turn in range(TURNS)]
    clusters = {each.query_id: each.query_id.partition("_")[0] for each in lists}
    fold_of = folds_of({clusters[each.query_id]: float(each.right) for each in lists})
    scores, why = theta_scores(lists, clusters=clusters)
    assert not why
    for ranked, score in zip(lists, scores, strict=True):
        own = fold_of[clusters[ranked.query_id]]
        unseen = fit_theta([each for each in lists if fold_of[clusters[each.query_id]] != own])
        assert score == pytest.approx(unseen(ranked.utilities, ranked.relevant))
    right = [each.right for each in lists]
    owners = numbered((each.query_id for each in lists), clusters)

    def rho(found):
        own = [owners[each.query_id] for each in lists]
        return Draws(20, resamples=1).correlate(found, right, own).spearman[0]

    apart, _ = theta_scores(lists)
    assert rho(apart) > 0.2 > rho(scores), "a fit that has seen two turns alike knows the third, of pure noise"


def test_the_study_cross_validates_by_conversation(studies):
    def alike(study):
        """Conversations whose three turns, which are the same list, have one score."""
        scores = {}
        for ranked in study.lists:
            if ranked.k == 5:
                scores.setdefault(ranked.query_id.partition("_")[0], set()).add(ranked.values["UDCGθ"])
        return sum(len(own) == 1 for own in scores.values())

    whole = studies["whole"]
    assert alike(whole) == 20
    assert alike(studies["apart"]) < 20
    clusters = {ranked.query_id: ranked.query_id.partition("_")[0] for ranked in whole.lists}
    assert whole.theta_by_chance == theta_by_chance(whole.lists, seed=13, clusters=clusters)


def test_chance_deals_answers_of_a_conversation_in_a_row():
    lists = noise(1, n=30)
    themselves = {each.query_id: each.query_id for each in lists}
    assert theta_by_chance(lists, seed=13, deals=3, clusters=themselves) == theta_by_chance(lists, seed=13, deals=3)
    turns = [replace(each, query_id=f"{each.query_id}_{turn}") for each in lists for turn in range(TURNS)]
    clusters = {each.query_id: each.query_id.partition("_")[0] for each in turns}
    found = theta_by_chance(turns, seed=13, deals=10, clusters=clusters)
    alone = theta_by_chance(turns, seed=13, deals=10)
    assert found.high - found.low > 1.2 * (alone.high - alone.low), "as coarse as 30 answers, not as fine as 90"


def test_numbers_by_hand():
    ids, clusters = ["b_1", "a_1", "b_2"], {"a_1": "a", "b_1": "b", "b_2": "b"}
    assert numbered(ids, clusters) == {"b_1": 0, "a_1": 1, "b_2": 0}
    assert numbered(ids, None) == {"b_1": 0, "a_1": 1, "b_2": 2}
    assert by_question(ids, [1.0, 2.0, 3.0], None) == [1.0, 2.0, 3.0]
    assert by_question(ids, [1.0, 2.0, 3.0], clusters) == {"b_1": 1.0, "a_1": 2.0, "b_2": 3.0}
    # Draws of (a, b): twice a is 0, twice b 1, one of each 2/3.
    found = share([1, 0, 1], ids=ids, clusters=clusters)
    assert (found.value, found.low, found.high) == (pytest.approx(2 / 3), 0.0, 1.0)
    alone = share([1, 0, 1], ids=ids, clusters=dict.fromkeys(ids, "one"))
    assert (alone.value, alone.low) == (pytest.approx(2 / 3), None)
    one = Draws(1).correlate([0.1, 0.2, 0.3], [False, True, True], [0, 0, 0])
    assert estimate(one.spearman).low is None


def test_each_question_for_itself_changes_nothing():
    dataset, run = planted(12)
    themselves = {query.id: query.id for query in dataset.queries}
    cases = position_cases(dataset, 3)
    plain = study_position(cases, Reader(Judge()), length=3)
    alone = study_position(cases, Reader(Judge()), length=3, clusters=themselves)
    assert alone.spearman == plain.spearman
    assert [each.right.value for each in alone.positions] == [each.right.value for each in plain.positions]
    empty = study_ideal([(dataset.queries[0], [])], Reader(Judge()), k=2, gamma=1 / 3, clusters=themselves)
    assert (empty.questions, empty.rules[0].right.value) == (0, None)
    named = replace(dataset, queries=[replace(query, metadata={"conversation": query.id}) for query in dataset.queries])
    studies = [study_correlation(each, Judge(), {"run": run}, [2], **PARTS) for each in (dataset, named)]
    assert studies[0].correlations == studies[1].correlations
    assert studies[0].position == studies[1].position
    assert studies[0].ideal == studies[1].ideal
    assert studies[0].theta_by_chance == studies[1].theta_by_chance
