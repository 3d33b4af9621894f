"""mx.contrib.text: tokens counted, numbered and given vectors."""

from __future__ import annotations

import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from hybridjit import nd
from hybridjit.contrib import text
from hybridjit.errors import MXNetError
from hybridjit.gluon.contrib.data.text import WikiText2, WikiText103


def test_tokens_are_counted():
    found = text.utils.count_tokens_from_str(" Life is great ! \n life is good . \n", to_lower=True)
    assert found == {"!": 1, ".": 1, "good": 1, "great": 1, "is": 2, "life": 2}
    more = text.utils.count_tokens_from_str("*a*b*", r"\*", counter_to_update=found)
    assert more is found and found["a"] == 1


class TestVocabulary:
    COUNTS = Counter(["a", "b", "b", "c", "c", "c", "some_word$"])

    def test_order_and_lookup(self):
        v = text.vocab.Vocabulary(self.COUNTS, None, 1, "<unk>", ["<pad>"])
        assert v.idx_to_token == ["<unk>", "<pad>", "c", "b", "a", "some_word$"]
        assert v.token_to_idx["b"] == 3 and len(v) == 6
        assert v.unknown_token == "<unk>" and v.reserved_tokens == ["<pad>"]
        assert v.to_indices("c") == 2 and v.to_indices(["a", "x"]) == [4, 0]
        assert v.to_tokens(1) == "<pad>" and v.to_tokens([2, 3]) == ["c", "b"]
        with pytest.raises(ValueError, match="6"):
            v.to_tokens(6)

    def test_vocabulary_respects_its_limits(self):
        assert text.vocab.Vocabulary(self.COUNTS, min_freq=2).idx_to_token == ["<unk>", "c", "b"]
        assert text.vocab.Vocabulary(self.COUNTS, most_freq_count=1).idx_to_token == ["<unk>", "c"]
        assert text.vocab.Vocabulary().reserved_tokens is None
        for wrong in ({"min_freq": 0}, {"reserved_tokens": ["<unk>"]}, {"reserved_tokens": "aa"}):
            with pytest.raises(AssertionError):
                text.vocab.Vocabulary(**wrong)
        with pytest.raises(AssertionError, match="Counter"):
            text.vocab.Vocabulary({"a": 1})


class TestEmbedding:
    def made(self, tmp_path, lines="a 0.1 0.2 0.3\nb 1 2 3\n", **kwargs):
        path = tmp_path / "vectors.txt"
        path.write_text(lines)
        return text.embedding.CustomEmbedding(str(path), **kwargs)

    def test_embedding_returns_vectors_of_tokens(self, tmp_path):
        e = self.made(tmp_path, init_unknown_vec=nd.ones)
        assert len(e) == 3 and e.vec_len == 3 and e.idx_to_vec.shape == (3, 3)
        assert e.get_vecs_by_tokens("b").asnumpy().tolist() == [1, 2, 3]
        assert e.get_vecs_by_tokens(["b", "x"]).asnumpy().tolist() == [[1, 2, 3], [1, 1, 1]]
        assert e.get_vecs_by_tokens("B").asnumpy().tolist() == [1, 1, 1]
        assert e.get_vecs_by_tokens("B", lower_case_backup=True).asnumpy().tolist() == [1, 2, 3]
        e.update_token_vectors("b", nd.array([4, 5, 6]))
        e.update_token_vectors(["<unk>"], nd.array([[7, 8, 9]]))
        assert e.get_vecs_by_tokens(["b", "?"]).asnumpy().tolist() == [[4, 5, 6], [7, 8, 9]]
        with pytest.raises(ValueError, match="unknown"):
            e.update_token_vectors("x", nd.array([4, 5, 6]))
        with pytest.raises(AssertionError):
            e.update_token_vectors("b", nd.array([4, 5]))

    def test_a_file_may_have_a_header_repeats_and_an_unknown_token(self, tmp_path):
        with pytest.warns(UserWarning, match="header"), pytest.warns(UserWarning, match="already"):
            e = self.made(tmp_path, "2 5\na 1 2\n<unk> 5 6\na 3 4\n")
        assert e.idx_to_token == ["<unk>", "a"]
        assert e.idx_to_vec.asnumpy().tolist() == [[5, 6], [1, 2]]

    def test_for_a_vocabulary(self, tmp_path):
        v = text.vocab.Vocabulary(Counter(["b", "b", "c"]), reserved_tokens=["<pad>"])
        e = self.made(tmp_path, vocabulary=v)
        assert e.idx_to_token == ["<unk>", "<pad>", "b", "c"] and e.reserved_tokens == ["<pad>"]
        assert e.idx_to_vec.asnumpy()[:, 0].tolist() == [0, 0, 1, 0]
        both = text.embedding.CompositeEmbedding(v, [e, self.made(tmp_path)])
        assert both.vec_len == 6
        assert both.get_vecs_by_tokens("b").asnumpy().tolist() == [1, 2, 3, 1, 2, 3]

    def test_embedding_raises_for_malformed_files(self, tmp_path):
        with pytest.raises(ValueError, match="valid path"):
            text.embedding.CustomEmbedding(str(tmp_path / "nowhere"))
        with pytest.raises(AssertionError, match="dimension of token b is 1|2 but"):
            self.made(tmp_path, "a 1 2 3\nb 1 2\n")
        with pytest.raises(ValueError, match="line 1"):
            self.made(tmp_path, "a x y\n")
        with pytest.raises(AssertionError, match="line 1"):
            self.made(tmp_path, "a\n")
        with pytest.raises(MXNetError, match="no vector"):
            self.made(tmp_path, "")

    def test_named_files(self, tmp_path, monkeypatch):
        monkeypatch.setenv("MXNET_HOME", str(tmp_path))
        assert "glove.6B.50d.txt" in text.embedding.get_pretrained_file_names("glove")
        assert set(text.embedding.get_pretrained_file_names()) >= {"glove", "fasttext"}
        with pytest.raises(MXNetError, match=r"glove.6B.50d.txt.*does not download"):
            text.embedding.create("glove", pretrained_file_name="glove.6B.50d.txt")
        with pytest.raises(KeyError, match="nothing.txt"):
            text.embedding.create("glove", pretrained_file_name="nothing.txt")
        folder = tmp_path / "embeddings" / "glove"
        folder.mkdir(parents=True)
        (folder / "glove.6B.50d.txt").write_text("the 1 2\n")
        e = text.embedding.create("glove", pretrained_file_name="glove.6B.50d.txt")
        assert e.get_vecs_by_tokens("the").asnumpy().tolist() == [1, 2]


class TestWikiText:
    LINES = "\n = b a =\n \n b c b d\n e b\n"

    def test_rows_of_words(self, tmp_path: Path):
        (tmp_path / "wiki.train.tokens").write_text(self.LINES)
        (tmp_path / "wiki.test.tokens").write_text("c x\n")
        train = WikiText2(str(tmp_path), seq_len=5)
        # "<eos>" is a word of the vocabulary before all that was counted
        assert train.vocabulary.idx_to_token == ["<unk>", "<eos>", "b", "=", "a", "c", "d", "e"]
        assert train.frequencies["b"] == 4 and len(train) == 2
        data, label = train[0]
        assert data.dtype == label.dtype == np.int32
        assert data.asnumpy().tolist() == [3, 2, 4, 3, 1]
        assert label.asnumpy().tolist() == [2, 4, 3, 1, 2]
        assert train[1][1].asnumpy().tolist() == [5, 2, 6, 1, 7]
        test = WikiText2(str(tmp_path), "test", train.vocabulary, seq_len=1)
        assert [int(label.asscalar()) for _, label in test] == [0, 1]
        assert test.vocabulary is train.vocabulary and test.frequencies == {"c": 1, "x": 1}

    def test_wikitext_reads_its_archive(self, tmp_path: Path, monkeypatch):
        monkeypatch.setenv("MXNET_HOME", str(tmp_path))
        folder = tmp_path / "datasets" / "wikitext-103"
        folder.mkdir(parents=True)
        with pytest.raises(MXNetError, match=r"neither wiki.train.tokens nor wikitext-103-v1.zip"):
            WikiText103()
        with zipfile.ZipFile(folder / "wikitext-103-v1.zip", "w") as archive:
            archive.writestr("wikitext-103/wiki.train.tokens", self.LINES)
        assert len(WikiText103(seq_len=3)) == 4
        with pytest.raises(MXNetError, match="has no wiki.test.tokens"):
            WikiText103(segment="test")
        (folder / "wikitext-103-v1.zip").write_bytes(b"PK")
        with pytest.raises(MXNetError, match="not a zip file"):
            WikiText103()
