"""Bytes of a response: every float survives, whatever the text."""

import random
import struct
from math import inf, nan

import pytest

from utilitune.generator.protocol import Continuation, Generation
from utilitune.scoring.response_codec import decode, encode


def test_the_layout_by_hand():
    given = Generation("é", ("\u0120é",), (7,), (-0.5,), (0.25,), finish="stop")
    assert encode(given) == (
        bytes([1, 1 | 8 | 32 | 64])  # version; entropies, ids, generation, float32
        + struct.pack("<Iiff", 1, 7, -0.5, 0.25)
        + "é\0stop\0\u0120é".encode()
    )
    wide = Continuation("x", ("x",), (), (-0.1,), None)
    assert encode(wide) == bytes([1, 0]) + struct.pack("<Id", 1, -0.1) + b"x\0\0x"


def random_response(draw):
    count = draw.randint(1, 40)
    single = draw.random() < 0.5

    def numbers(size):
        values = [draw.choice([draw.gauss(0, 10), 0.0, -0.0, 5e-324, 1.7e308, -1e-30]) for _ in range(size)]
        if single:
            values = [struct.unpack("<f", struct.pack("<f", draw.gauss(0, 10)))[0] for _ in values]
        return tuple(values)

    letters = ["a", " b", "\u2028", "\x85", "\0", "", "\ud83d", "😀", "é", "\n", '"']
    optional = lambda value: value if draw.random() < 0.5 else None  # noqa: E731
    given = (
        "".join(draw.choices(letters, k=5)),
        tuple(draw.choices(letters, k=count)),
        tuple(draw.randrange(2**31) for _ in range(count)) if draw.random() < 0.7 else (),
        numbers(count),
        optional(numbers(count)),
        optional(tuple(zip(numbers(count), numbers(count), strict=True))),
        optional(numbers(count)),
        draw.random() < 0.5,
    )
    return Generation(*given, finish=draw.choice(["stop", "length"])) if draw.random() < 0.5 else Continuation(*given)


def test_a_thousand_odd_responses_come_back_equal_and_of_their_kind():
    draw = random.Random(0)
    for _ in range(1000):
        given = random_response(draw)
        back = decode(encode(given))
        assert back == given and type(back) is type(given) and hash(back) == hash(given)
        assert [repr(each) for each in back.logprobs] == [repr(each) for each in given.logprobs], "-0.0 stays -0.0"
        with pytest.raises(AttributeError):
            back.text = "changed"


GOOD = Generation("x", ("x", "y"), (1, 2), (-1.0, -2.0), (0.5, 0.25), finish="stop")


@pytest.mark.parametrize("cut", [0, 1, 5, 9, 20, 28])
def test_torn_bytes_are_an_error_and_never_a_number(cut):
    with pytest.raises(ValueError, match=r"response|surfaces"):
        decode(encode(GOOD)[:cut])


def test_another_layout_is_an_error():
    with pytest.raises(ValueError, match="layout 2"):
        decode(b"\2" + encode(GOOD)[1:])


@pytest.mark.parametrize(
    "bad",
    [
        Continuation("x", ("x",), (1,), (nan,), None),
        Continuation("x", ("x", "y"), (1, 2), (inf, -inf), None),
        Continuation("x", ("x",), (1, 2), (-1.0,), None),
        Continuation("x", ("x", "y"), (1,), (-1.0,), None),
        Continuation("x", ("x",), (1,), (-1.0,), (0.5, 0.5)),
        Continuation("x", (), (), (), None),
    ],
)
def test_what_must_not_be_kept_has_no_bytes(bad):
    assert encode(bad) is None
