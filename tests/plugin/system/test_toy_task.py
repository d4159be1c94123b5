"""Tasks that must be learned: the words of a sentence as they are, and in reverse order."""

import random

import pytest
import sacrebleu
import torch
from helpers import make_gru, make_model, pad

from bert_fused_plugin.criterions.label_smoothed_cross_entropy import label_smoothed_loss

UPDATES, BATCH = 1000, 48


def sentences(dictionary, n, rng):
    words = range(dictionary.nspecial, dictionary.nspecial + 12)
    return [[rng.choice(words) for _ in range(rng.randint(2, 6))] for _ in range(n)]


def greedy(model, src_tokens, eos):
    encoder_out = model.encoder(src_tokens)
    prev = torch.full((len(src_tokens), 1), eos)
    for _ in range(8):
        logits, _ = model.decoder(prev, encoder_out=encoder_out)
        prev = torch.cat([prev, logits[:, -1].argmax(-1, keepdim=True)], dim=1)
    rows = [row.tolist()[1:] for row in prev]
    return [row[: row.index(eos)] if eos in row else row for row in rows]


def train(model, dictionary, rng, lr):
    """Learn to write the words of a sentence in reverse."""
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=UPDATES)
    eos, padding = dictionary.eos(), dictionary.pad()
    for _ in range(UPDATES):
        rows = sentences(dictionary, BATCH, rng)
        target = pad([torch.tensor([*row[::-1], eos]) for row in rows], padding, left=False)
        prev = torch.cat([torch.full((BATCH, 1), eos), target[:, :-1].masked_fill(target[:, :-1].eq(eos), padding)], 1)
        logits, _ = model(sources(dictionary, rows), None, prev)
        loss = label_smoothed_loss(logits, target, 0.1, padding)[0].sum() / target.ne(padding).sum()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()


def sources(dictionary, rows):
    return pad([torch.tensor([*row, dictionary.eos()]) for row in rows], dictionary.pad(), left=True)


def exact_matches(model, dictionary, rng, n=200):
    """Translate n new sentences; return how many are exact, and BLEU."""
    rows = sentences(dictionary, n, rng)
    with torch.no_grad():
        seen = greedy(model.eval(), sources(dictionary, rows), dictionary.eos())
    hypotheses = [" ".join(map(str, row)) for row in seen]
    references = [" ".join(map(str, row[::-1])) for row in rows]
    bleu = sacrebleu.corpus_bleu(hypotheses, [references], tokenize="none", force=True).score
    exact = sum(h == r for h, r in zip(hypotheses, references))
    print(f"BLEU {bleu:.1f}, {exact} of {n} exact")
    return exact, bleu


@pytest.fixture
def rng():
    """Another seed in each run: the thresholds are no lucky ones."""
    seed = random.SystemRandom().randrange(2**31)
    print(f"seed {seed}")
    torch.manual_seed(seed)
    return random.Random(seed)


def test_reversal_is_learned_with_drop_net_and_dropout(dictionary, bert_dir, rng):
    sizes = {"embed_dim": 32, "ffn_embed_dim": 64}
    options = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in sizes.items()}
    model = make_model(dictionary, bert_model=bert_dir, bert_drop_net=0.5, dropout=0.02, **options)
    train(model, dictionary, rng, 5e-3)
    assert exact_matches(model, dictionary, rng)[1] > 95


def test_a_recurrent_model_learns_to_reverse(dictionary, rng):
    sizes = dict.fromkeys(("encoder_embed_dim", "decoder_embed_dim", "decoder_out_embed_dim"), 24)
    model = make_gru(dictionary, encoder_hidden_size=32, decoder_hidden_size=48, dropout=0.02, **sizes)
    train(model, dictionary, rng, 1e-2)
    assert exact_matches(model, dictionary, rng)[0] >= 198
