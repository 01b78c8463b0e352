"""The student's loss: arithmetic by hand, texts that are one and the same, an independent KL."""

from __future__ import annotations

import math

import pytest
import torch
from sentence_transformers import SentenceTransformer

from utilitune.rerank.listwise_kl import listwise_kl
from utilitune.rerank.student.loss import StudentLoss, in_batch_loss


def angles(*values):
    return torch.tensor([[math.cos(value), math.sin(value)] for value in values])


def test_in_batch_loss_by_hand():
    # Two queries, two places; the best passages first. Lengths are of no account: cosines.
    queries, best, other = 3 * angles(0.0, 1.0), angles(0.2, 0.9), angles(0.5, 1.5)
    keys = [[(1,), (2,)], [(3,), (4,)]]
    loss, negatives, kept_out = in_batch_loss(queries, [best, other], keys, 0.5)
    rows = [(0.2, 0.9 - 0.0, 1.5), (0.1, 0.8, 0.5)]  # distances: own best, the two of the other query
    expected = [
        -math.log(math.exp(math.cos(own) / 0.5) / sum(math.exp(math.cos(x) / 0.5) for x in (own, *foreign)))
        for own, *foreign in rows
    ]
    assert loss.item() == pytest.approx(sum(expected) / 2, abs=1e-5)
    assert (negatives, kept_out) == (4, 0)


def test_a_passage_that_is_a_candidate_of_the_query_is_no_negative():
    queries, best, other = angles(0.0, 1.0), angles(0.2, 0.9), angles(0.5, 1.5)
    # The best passage of the second query is the first one's other candidate.
    keys = [[(1,), (3,)], [(3,), (4,)]]
    loss, negatives, kept_out = in_batch_loss(queries, [best, other], keys, 0.5)
    first = -math.log(math.exp(math.cos(0.2) / 0.5) / (math.exp(math.cos(0.2) / 0.5) + math.exp(math.cos(1.5) / 0.5)))
    second_row = [math.exp(math.cos(x) / 0.5) for x in (0.1, 0.8)]
    assert loss.item() == pytest.approx((first - math.log(second_row[0] / sum(second_row))) / 2, abs=1e-5)
    assert (negatives, kept_out) == (2, 2)


def test_one_query_has_no_negatives():
    loss, negatives, _ = in_batch_loss(angles(0.0), [angles(1.0), angles(2.0)], [[(1,)], [(2,)]], 0.05)
    assert loss.item() == 0.0 and negatives == 0


@pytest.fixture
def encoder(tiny_encoder):
    return SentenceTransformer(tiny_encoder, device="cpu", local_files_only=True).eval()


def features(encoder, *columns):
    return [encoder.preprocess(list(column)) for column in columns]


QUERIES, BEST, OTHER = ["who built", "where is"], ["good mill", "the river"], ["bad town", "good mill"]


def test_own_part_is_the_divergence_of_scaled_cosines(encoder):
    loss = StudentLoss(encoder, "listwise-kl", target_temperature=0.5, score_temperature=0.1, in_batch=0.0)
    labels = torch.tensor([[1.0, 0.0], [0.4, 0.1]])
    parts = loss(features(encoder, QUERIES, BEST, OTHER), labels)
    vectors = [torch.tensor(encoder.encode(texts, prompt="")) for texts in (QUERIES, BEST, OTHER)]
    cosines = torch.stack([torch.cosine_similarity(vectors[0], place) for place in vectors[1:]], dim=1)
    expected = listwise_kl(cosines, labels, torch.ones(2, 2, dtype=torch.bool), 0.5, 0.1)
    assert set(parts) == {"own"} and parts["own"].item() == pytest.approx(expected.item(), abs=1e-5)


def test_margins_are_of_scaled_cosines(encoder):
    loss = StudentLoss(encoder, "margin-mse", target_temperature=1.0, score_temperature=0.2, in_batch=0.0)
    labels = torch.tensor([[2.0, 0.5], [1.0, 1.0]])
    parts = loss(features(encoder, QUERIES, BEST, OTHER), labels)
    vectors = [torch.tensor(encoder.encode(texts, prompt="")) for texts in (QUERIES, BEST, OTHER)]
    cosines = [torch.cosine_similarity(vectors[0], place) for place in vectors[1:]]
    expected = (((cosines[0] - cosines[1]) / 0.2 - torch.tensor([1.5, 0.0])) ** 2).mean()
    assert parts["own"].item() == pytest.approx(expected.item(), abs=1e-5)


def test_equal_texts_are_told_by_their_tokens_and_counted(encoder):
    loss = StudentLoss(encoder, "listwise-kl", target_temperature=1.0, score_temperature=0.1, in_batch=0.5)
    parts = loss(features(encoder, QUERIES, BEST, OTHER), torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
    # "good mill" is the first query's best passage and the second one's other candidate: kept out of both.
    assert loss.counts == {"in_batch_negatives": 2, "in_batch_kept_out": 2}
    assert set(parts) == {"own", "in_batch"} and parts["in_batch"].item() > 0
