"""Streaming: tokens as they are generated; text in whole characters."""

import threading

import numpy as np
import pytest
from generation.test_generate import chain
from generation.test_stopping import Letters

import minitorch_attn as mt
from minitorch_attn import generation as g
from minitorch_attn.errors import ArgumentError


class Bytes:
    def decode(self, ids, **kwargs):
        assert kwargs in ({}, {"upper": True})
        text = bytes(ids).decode("utf-8", errors="replace")
        return text.upper() if kwargs else text


def pieces(data, prompt=b"", **settings):
    found = []
    streamer = g.TextStreamer(Bytes(), write=found.append, **settings)
    streamer.put(np.array([list(prompt)]))
    for byte in data:
        streamer.put(np.array([byte]))
    streamer.end()
    return found


def test_characters_are_held_back_until_complete():
    text = "aé漢🙂\nz"
    found = pieces(text.encode())
    assert found == list(text)


def test_nothing_is_lost_that_is_no_text():
    data = b"a\xff\xfe\xff\xff\xffb\xc3"
    assert "".join(pieces(data)) == data.decode(errors="replace")


def test_the_prompt():
    assert pieces(b"c", prompt=b"ab") == ["ab", "c"]
    assert pieces(b"c", prompt=b"ab", skip_prompt=True) == ["c"]
    assert pieces(b"c", prompt=b"ab", skip_prompt=True, upper=True) == ["C"]


def test_a_streamer_is_used_again():
    found = []
    streamer = g.TextStreamer(Bytes(), skip_prompt=True, write=found.append)
    for _ in range(2):
        streamer.put(np.array([[97]]))
        streamer.put(np.array([98]))
        streamer.end()
    assert found == ["b", "b"]


def test_one_sequence_at_a_time():
    streamer = g.TextStreamer(Bytes(), write=lambda text: None)
    with pytest.raises(ArgumentError, match="2 rows"):
        streamer.put(np.array([[1], [2]]))
    streamer.put(np.array([[1, 2]]))
    with pytest.raises(ArgumentError, match="2 rows"):
        streamer.put(np.array([1, 2]))


def test_generate_shows_every_token(device, capsys):
    ids = mt.tensor([[1], [3]], device=device)
    seen = []
    settings = {"max_new_tokens": 3}
    streamer = g.TokenStreamer(seen.append, skip_prompt=False)
    result = g.generate(chain(device), ids, streamer=streamer, **settings)
    assert seen == [[[1], [3]], [2, 4], [3, 5], [4, 6]]
    np.testing.assert_array_equal(result.numpy()[:, 1:], np.array(seen[1:]).T)
    letters = Letters(*"abcdefghijk")
    g.generate(chain(device), ids[:1], streamer=g.TextStreamer(letters), **settings)
    assert capsys.readouterr().out == "bcde"


def test_text_from_another_thread():
    streamer = g.TextIteratorStreamer(Letters(*"abcdefghijk"), skip_prompt=True, timeout=20)
    arguments = {"streamer": streamer, "max_new_tokens": 3}
    thread = threading.Thread(
        target=g.generate, args=(chain("cpu"), mt.tensor([[1]])), kwargs=arguments
    )
    thread.start()
    assert list(streamer) == ["c", "d", "e"]
    thread.join()
