"""Which passages the gold one has to beat: no other gold one, none with the answer, the same whatever ids are."""

from dataclasses import replace

import pytest

from utilitune.errors import ConfigError, DataError
from utilitune.evaluation.study.signal_cases import OF_GOLD_TEXT, SHORT, WITH_ANSWER, choose_cases
from utilitune.records import Dataset, Passage, Query, Turn


def of(cases, query_id):
    return next(case for case in cases.cases if case.query.id == query_id)


def texts(cases):
    """Cases without ids."""
    return {
        case.query.text: (case.gold.text, [passage.text for passage in case.hard], [p.text for p in case.random])
        for case in cases.cases
    }


def test_every_question_gets_its_gold_four_hard_ones_and_a_random_one(world):
    found = choose_cases(world)
    assert len(found.cases) == 10
    for case in found.cases:
        ids = [passage.id for _, passage in case.candidates()]
        assert case.gold.id == case.query.id.replace("q", "p")
        assert [role for role, _ in case.candidates()] == ["gold", "hard", "hard", "hard", "hard", "random"]
        assert len(set(ids)) == 6
    assert found.counts["questions studied"] == 10
    assert not any(found.counts[kind] for kind in (OF_GOLD_TEXT, WITH_ANSWER, *SHORT))


def test_hard_ones_are_those_that_bm25_ranks_highest():
    corpus = [
        Passage("gold", "The heron of Vastra is white."),
        Passage("near", "The heron of Brasca nests in Vastra reeds."),
        Passage("mid", "A heron eats fish."),
        Passage("far", "Bakers sell rye bread."),
    ]
    query = Query("q", "What colour is the heron of Vastra?", answers=("white",))
    case = choose_cases(Dataset(corpus, [query], {"q": {"gold": 1}}), distractors=2).cases[0]
    assert [passage.id for passage in case.hard] == ["near", "mid"]
    assert [passage.id for passage in case.random] == ["far"]


def test_other_gold_passages_their_copies_and_answers_are_kept_out():
    corpus = [
        Passage("g2", "Vastra has a white heron on green."),
        Passage("g1", "The heron of Vastra is white."),
        Passage("copy", "The heron of Vastra is white."),
        Passage("part", "The heron of Vastra was judged a little."),
        Passage("leak", "In Vastra a heron is white."),
        Passage("fine", "In Vastra a heron eats fish."),
    ]
    query = Query("q", "What colour is the heron of Vastra?", answers=("White", " "))
    data = Dataset(corpus, [query], {"q": {"g1": 2, "missing": 2, "g2": 2, "part": 1, "leak": 0}})
    found = choose_cases(data, relevant_from=2)
    case = found.cases[0]
    assert case.gold.id == "g1", "the first one judged"
    assert [passage.id for passage in case.hard] == ["fine"]
    assert case.random == ()
    assert found.counts["gold passages beside the first, never distractors"] == 1
    assert found.counts[OF_GOLD_TEXT] >= 1
    assert found.counts[WITH_ANSWER] == 1
    assert [found.counts[kind] for kind in SHORT] == [1, 1]
    case = choose_cases(data, relevant_from=2, allow_answers=True).cases[0]
    assert {passage.id for passage in case.hard} == {"leak", "fine"}


def test_answers_are_whole_words_of_any_script_in_title_or_text():
    corpus = [
        Passage("g", "東京は日本の首都です。"),
        Passage("because", "日本の because 首都"),
        Passage("title", "日本の首都", title="東京"),
    ]
    query = Query("q", "日本の首都はどこですか。", answers=("東京", "us"))
    case = choose_cases(Dataset(corpus, [query], {"q": {"g": 1}})).cases[0]
    assert [passage.id for passage in case.hard] == ["because"]


def test_order_of_files_and_ids_do_not_matter(world):
    turned = Dataset(world.corpus[::-1], world.queries[::-1], dict(reversed(list(world.qrels.items()))), "x")
    assert texts(choose_cases(turned)) == texts(choose_cases(world))
    assert [case.query.id for case in choose_cases(turned).cases] == [
        case.query.id for case in choose_cases(world).cases
    ]
    renamed = Dataset(
        [replace(passage, id=f"{97 - 7 * number}x") for number, passage in enumerate(world.corpus)],
        [replace(query, id=f"{number * 31 % 11}") for number, query in enumerate(world.queries)],
        {f"{number * 31 % 11}": {f"{97 - 7 * number}x": 1.0} for number in range(10)},
    )
    ours, theirs = texts(choose_cases(world)), texts(choose_cases(renamed))
    assert list(ours) == list(theirs), "the same order"
    # BM25 breaks ties by id, so candidates are compared without hard ones.
    one, two = choose_cases(world, distractors=0), choose_cases(renamed, distractors=0)
    assert texts(one) == texts(two)


def test_a_larger_limit_extends_a_smaller_one(world):
    every = [case.query.id for case in choose_cases(world).cases]
    for limit in (1, 4, 10, 99):
        found = choose_cases(world, limit=limit)
        assert [case.query.id for case in found.cases] == every[:limit]
        assert found.counts["questions beyond the limit"] == max(0, 10 - limit)
        assert found.cases == choose_cases(world).cases[:limit], "with the same candidates"
    assert every != [query.id for query in world.queries], "drawn, not the first ones"


def test_another_seed_draws_other_questions_and_passages(world):
    one, two = choose_cases(world, seed=1), choose_cases(world, seed=2)
    assert [case.query.id for case in one.cases] != [case.query.id for case in two.cases]
    assert any(of(one, f"q{i}").random != of(two, f"q{i}").random for i in range(10))
    assert choose_cases(world, seed=1) == one
    assert one.facts["cases_sha256"] != two.facts["cases_sha256"]


def test_conversations_search_with_more_than_the_last_turn():
    corpus = [
        Passage("g", "Vastra lies on the Ull."),
        Passage("a", "Vastra makes bread."),
        Passage("b", "On it goes."),
    ]
    history = (Turn("user", "Tell me of Vastra."), Turn("assistant", "A town."))
    query = Query("c_2", "On which river is it?", history=history)
    case = choose_cases(Dataset(corpus, [query], {"c_2": {"g": 1}}), distractors=1).cases[0]
    assert case.hard[0].id == "a"
    written = replace(query, rewrite="On it goes?")
    case = choose_cases(Dataset(corpus, [written], {"c_2": {"g": 1}}), distractors=1).cases[0]
    assert case.hard[0].id == "b"


def test_no_judgements_is_an_error(world):
    with pytest.raises(DataError, match=r"towns: no judgements .* give qrels\.tsv"):
        choose_cases(replace(world, qrels={}))


def test_no_gold_passage_in_the_corpus_is_an_error_some_are_counted(world):
    with pytest.raises(
        DataError, match=r"none of 10 questions has a gold passage .* 10 whose gold passages are missing"
    ):
        choose_cases(replace(world, qrels={f"q{i}": {"elsewhere": 1} for i in range(10)}))
    with pytest.raises(DataError, match=r"\(10 without a judgement of grade 1 or more"):
        choose_cases(replace(world, qrels={"q1": {"p1": 0}}))
    found = choose_cases(replace(world, qrels={"q1": {"p1": 1}, "q2": {"elsewhere": 1}}))
    assert [case.query.id for case in found.cases] == ["q1"]
    assert found.counts["questions without a gold passage"] == 8
    assert found.counts["questions whose gold passage is not in the corpus"] == 1


def test_a_corpus_of_less_than_five_passages_goes_short_and_says_so(world, capsys):
    found = choose_cases(replace(world, corpus=world.corpus[:3]))
    assert [(len(case.hard), len(case.random)) for case in found.cases] == [(2, 0)] * 3
    assert [found.counts[kind] for kind in SHORT] == [3, 3]
    assert "3 questions with fewer hard distractors than asked for" in capsys.readouterr().err
    with pytest.raises(DataError, match="nothing to compare"):
        choose_cases(replace(world, corpus=world.corpus[:1]))


@pytest.mark.parametrize("grade", [0.0, -5.0, float("nan"), float("inf")])
def test_a_gold_passage_is_one_that_was_judged_above_0(world, grade):
    with pytest.raises(ConfigError, match="expected a grade above 0"):
        choose_cases(world, relevant_from=grade)


def test_fractional_grades_need_a_threshold(world):
    data = replace(world, qrels={"q1": {"p1": 0.7, "p2": 0.2}})
    with pytest.raises(ConfigError, match="--relevant-from"):
        choose_cases(data)
    case = choose_cases(data, relevant_from=0.5).cases[0]
    assert case.gold.id == "p1"
    assert "p2" not in [passage.id for passage in case.hard], "judged above 0: not clearly a distractor"


@pytest.mark.parametrize("wrong", [{"distractors": 0, "random": 0}, {"distractors": -1}, {"random": -1}, {"limit": 0}])
def test_numbers_out_of_range(world, wrong):
    with pytest.raises(ConfigError, match="expected at least one distractor"):
        choose_cases(world, **wrong)
