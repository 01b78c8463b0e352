from utilitune.generator.protocol import Prompt
from utilitune.scoring import Force, Greedy, Rescore
from utilitune.scoring.schedule import Part, fuse, stages

SHORT, LONG, LONGER = Prompt(plain="q"), Prompt(plain="document q"), Prompt(plain="another document q")
BARE, FIRST, SECOND = (Greedy(prompt, 8, ("\n",)) for prompt in (SHORT, LONG, LONGER))


def test_a_rescoring_waits_for_its_answer():
    assert stages([Rescore(SHORT, FIRST), Rescore(SHORT, SECOND)]) == (
        [],
        [FIRST, SECOND],
        [Rescore(SHORT, FIRST), Rescore(SHORT, SECOND)],
    )


def test_of_two_that_wait_for_each_other_the_shorter_goes_first():
    wanted = [FIRST, BARE, Rescore(SHORT, FIRST), Rescore(LONG, BARE), Force(LONG, "x"), FIRST]
    assert stages(wanted) == (
        [BARE],
        [FIRST, Rescore(LONG, BARE), Force(LONG, "x")],
        [Rescore(SHORT, FIRST)],
    )


def test_every_request_is_in_exactly_one_stage():
    wanted = [
        each
        for grounded in (FIRST, SECOND)
        for each in (grounded, BARE, Rescore(SHORT, grounded), Rescore(grounded.prompt, BARE))
    ]
    staged = [request for stage in stages(wanted * 2) for request in stage]
    assert len(staged) == len(set(staged)) and set(staged) == set(wanted)


def test_parts_of_one_prompt_are_one_task_and_a_second_greedy_is_another():
    parts = [
        Part(b"1", LONG, 8, ("\n",)),
        Part(b"2", SHORT, 8),
        Part(b"3", LONG, continuation="x"),
        Part(b"4", LONG, 16),
        Part(b"5", LONG, continuation=(1, 2)),
    ]
    fused = fuse(parts)
    tasks = [each.task() for each in fused]
    assert [task.prompt for task in tasks] == [LONG, SHORT, LONG]
    assert [task.max_new_tokens for task in tasks] == [8, 8, 16]
    assert tasks[0].continuations == ("x", (1, 2)) and tasks[0].stop == ("\n",)
    assert [part.key for part in fused[0].scored] == [b"3", b"5"]


def test_scoring_alone_wants_no_answer():
    task = fuse([Part(b"1", LONG, continuation="x")])[0].task()
    assert task.max_new_tokens == 0 and task.continuations == ("x",)
