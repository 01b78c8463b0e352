from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from utilitune.records import Passage


def build_encoder(folder: Path, seed: int, width: int = 16, pooling: str = "mean") -> Path:
    """Save a random one-layer BERT over single letters as a sentence-transformers folder."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Normalize, Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizerFast

    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    folder.mkdir(parents=True)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *("##" + letter for letter in letters)]
    raw = folder.with_name(folder.name + "-raw")
    raw.mkdir()
    (raw / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=width,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=2 * width,
        max_position_embeddings=32,
        initializer_range=0.5,
    )
    BertModel(config).save_pretrained(raw)
    BertTokenizerFast(vocab=str(raw / "vocab.txt"), model_max_length=32).save_pretrained(raw)
    transformer = Transformer(str(raw), max_seq_length=32)
    SentenceTransformer(modules=[transformer, Pooling(width, pooling), Normalize()], device="cpu").save(str(folder))
    return folder


@pytest.fixture(scope="session")
def make_encoder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    made: dict[tuple[int, int, str], Path] = {}

    def make(seed: int = 0, width: int = 16, pooling: str = "mean") -> Path:
        key = (seed, width, pooling)
        if key not in made:
            made[key] = build_encoder(tmp_path_factory.mktemp("encoder") / f"seed-{seed}", seed, width, pooling)
        return made[key]

    return make


@pytest.fixture
def gazetteer() -> list[Passage]:
    """A small invented corpus; no term but "the" is in half of the passages."""
    return [
        Passage("p1", "The harbour of Velmar freezes each winter", "Velmar"),
        Passage("p2", "Ostrana mines copper and tin; copper pays for the roads of Ostrana"),
        Passage("p3", "The poet Ilka Dorn was born in Velmar in 1871"),
        Passage("p4", "A ferry joins Velmar with the island Suthe"),
        Passage("p5", "Suthe exports wool, salt and dried fish"),
        Passage("p6", "Dorn wrote nine plays, three of them about salt smugglers"),
        Passage("p7", "Copper roofs gave the town its green skyline"),
    ]
