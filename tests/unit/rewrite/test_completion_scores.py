import pytest

torch = pytest.importorskip("torch")


def build(tiny_base, adapter):
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaForCausalLM
    from trl.trainer.utils import add_fused_lm_head

    model = LlamaForCausalLM.from_pretrained(tiny_base)
    if adapter:
        torch.manual_seed(1)
        model = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False))
    inner = model.get_base_model() if adapter else model
    add_fused_lm_head(inner, outputs=("log_probs", "entropy", "mean_logits", "is_top1"))
    return model, inner


def collate(*pairs):
    """Collate (prompt length, chosen length, rejected length) with random ids the way TRL does."""
    from trl.trainer.dpo_trainer import DataCollatorForPreference

    torch.manual_seed(2)

    def draw(count):
        return torch.randint(4, 40, (count,)).tolist()

    batch = DataCollatorForPreference(pad_token_id=1)(
        [{"prompt_ids": draw(p), "chosen_ids": draw(c), "rejected_ids": draw(r)} for p, c, r in pairs]
    )
    labels = batch["input_ids"].masked_fill(batch.pop("completion_mask") == 0, -100)
    return {**batch, "labels": labels}


def test_packing_by_hand():
    from utilitune.rewrite.shared_prompt import pack

    ids = torch.tensor([[10, 11, 20, 21], [10, 11, 30, 0]])
    labels = torch.tensor([[-100, -100, 20, 21], [-100, -100, 30, -100]])
    attention = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])
    packed = pack(ids, attention, labels, torch.float32)
    assert packed.ids.tolist() == [[10, 11, 20, 21, 30]]
    assert packed.positions.tolist() == [[0, 1, 2, 3, 2]]
    assert (packed.mask[0, 0] == 0).int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 1, 1, 0],
        [1, 1, 0, 0, 1],  # the rejected answer sees the prompt and itself
    ]
    assert packed.rows.tolist() == [0, 0, 0]
    assert packed.columns.tolist() == [1, 2, 1]  # 20 and 30 are both predicted by the prompt's last token


@pytest.mark.parametrize("adapter", [False, True])
@pytest.mark.parametrize("shape", [[(6, 3, 5), (4, 5, 1), (9, 1, 1)], [(1, 2, 2)], [(20, 7, 2), (3, 2, 9)]])
def test_equals_the_plain_way_and_so_do_the_gradients(tiny_base, adapter, shape):
    from utilitune.rewrite.completion_scores import speed_up

    batch = collate(*shape)
    plain, _ = build(tiny_base, adapter)
    quick, inner = build(tiny_base, adapter)
    sharing = speed_up(inner)
    assert speed_up(inner) is None  # once is enough
    expected = plain(**batch, fused_lm_head=True)
    found = quick(**batch, fused_lm_head=True)
    assert sharing.on is True and sharing.difference < 1e-4
    mask = batch["labels"][:, 1:] != -100
    for name in ("log_probs", "entropy", "mean_logits"):
        assert torch.allclose(getattr(found, name)[mask], getattr(expected, name)[mask], atol=1e-5), name
    assert not found.log_probs[~mask].any()
    assert torch.equal(found.is_top1[mask], expected.is_top1[mask])
    assert found.loss.item() == pytest.approx(expected.loss.item(), abs=1e-5)

    weight = torch.randn(mask.shape)
    (expected.log_probs * weight).sum().backward()
    (found.log_probs * weight).sum().backward()
    moved = 0
    for (name, one), (_, two) in zip(plain.named_parameters(), quick.named_parameters(), strict=True):
        if one.grad is not None:
            assert torch.allclose(one.grad, two.grad, atol=1e-5), name
            moved += 1
    assert moved


def test_rows_that_are_no_pairs_go_the_plain_way(tiny_base):
    from utilitune.rewrite.completion_scores import speed_up

    batch = collate((5, 3, 3), (6, 2, 2))
    batch["input_ids"][0, 0] = 39 if batch["input_ids"][0, 0] != 39 else 38  # prompts differ
    plain, _ = build(tiny_base, False)
    quick, inner = build(tiny_base, False)
    speed_up(inner)
    expected, found = plain(**batch, fused_lm_head=True), quick(**batch, fused_lm_head=True)
    assert torch.allclose(found.log_probs, expected.log_probs, atol=1e-5)


def test_a_model_that_ignores_the_mask_is_found_out(tiny_base):
    from utilitune.rewrite.completion_scores import speed_up

    _, inner = build(tiny_base, False)
    backbone = inner.model.forward

    def deaf(*args, attention_mask=None, **options):
        return backbone(*args, **options)

    inner.model.forward = deaf
    sharing = speed_up(inner)
    inner(**collate((5, 3, 3), (6, 2, 2)), fused_lm_head=True)
    assert sharing.on is False and sharing.difference > 1e-3


def test_without_the_flag_the_forward_is_the_models_own(tiny_base):
    from utilitune.rewrite.completion_scores import speed_up

    model, inner = build(tiny_base, False)
    ids = collate((5, 3, 3))["input_ids"]
    before = model(ids).logits
    speed_up(inner)
    assert torch.equal(model(ids).logits, before)


def test_models_that_cap_their_logits_are_left_to_trl(tiny_base):
    from utilitune.rewrite.completion_scores import speed_up

    model, inner = build(tiny_base, False)
    model.config.final_logit_softcapping = 30.0
    assert speed_up(inner) is None
