"""From observations and their records to named pictures and files."""

import tracemalloc
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from attention_lab.attention import Recording
from attention_lab.tasks import Observation, pictures
from attention_lab.tasks.observation import QueriesAndKeys, make_observation
from attention_lab.tasks.pictures import readable, record_pictures, save_pictures
from attention_lab.tensorboard_plugin.arrays import make_ink
from attention_lab.tensorboard_plugin.description import readable_names
from attention_lab.viz import Heatmap

ENCODER, DECODER = "encoder.layers.0.attention.attention", "decoder.attention"
SIDES = QueriesAndKeys(["x", "y", "</s>"], ["a", "b"], torch.tensor([0, 1, -1]))


def _observation(
    text: str = "ab",
    weights: Mapping[str, torch.Tensor] | None = None,
    queries_and_keys: Mapping[str, QueriesAndKeys] | None = None,
    expected: str = "",
) -> Observation:
    drawn = torch.softmax(torch.randn(2, 3, 2), -1)
    given = {ENCODER: drawn, DECODER: drawn[:1]} if weights is None else weights
    recorded = Recording()
    for name, heads in given.items():
        recorded.add(name, heads.unsqueeze(0), heads.unsqueeze(0) > 0)
    queries_and_keys = dict.fromkeys(given, SIDES) if queries_and_keys is None else queries_and_keys
    return make_observation(recorded, 0, queries_and_keys, input=text, output="x y", expected=expected)


def test_a_title_leaves_out_an_input_that_is_a_picture() -> None:
    picture, text = (_observation(one).records[0] for one in ("··█ ·█·", "ab"))
    assert [pictures._title(one) for one in (picture, text)] == ["output: x y", "ab → x y"]


@pytest.mark.parametrize(("expected", "title"), [("x y", "ab → x y"), ("z", "ab → x y, expected z")])
def test_a_title_has_the_expected_output_where_it_is_another(expected: str, title: str) -> None:
    assert pictures._title(_observation(expected=expected).records[0]) == title


def _drawn(observation: Observation) -> list[tuple[str, Image.Image]]:
    tops = pictures.scale_tops([observation])
    return [
        picture
        for record in observation.records
        for picture in record_pictures(record, tops[readable(record.module)])
    ]


@pytest.mark.parametrize("masked", [False, True])
def test_drawing_long_inputs_takes_less_memory_than_their_weights(masked: bool) -> None:
    """Four examples of 5,000 positions take 3 GB in two layers of four heads; drawing them took 4 more."""
    size = 1000
    weights = torch.full((8, size, size), 1 / size)
    sides = QueriesAndKeys([""] * size, [""] * size)
    recorded = Recording()
    mask = torch.ones(size, size, dtype=torch.bool).tril() if masked else None
    recorded.add(ENCODER, weights[None], None if mask is None else mask.expand(1, 8, size, size))
    observation = make_observation(recorded, 0, {ENCODER: sides}, input="", output="", expected="")
    peaks = []
    for work in (lambda: pictures.scale_tops([observation]), lambda: _drawn(observation)):
        tracemalloc.start()
        work()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert max(peaks) < 4 * weights.numel()


@pytest.mark.parametrize(
    ("module", "place"),
    [
        ("encoder.layers.0.attention.attention", "encoder layer 1"),
        ("encoder.layers.11.attention.attention", "encoder layer 12"),
        ("decoder.attention", "decoder"),
        ("attention", "attention"),
        ("bert.encoder.layer.0.attention.self", "bert encoder layer 1 self"),
        ("transformer.h.2.attn", "transformer layer 3 attn"),
        ("graph.h.attention", "graph h"),
        ("encoder._orig_mod.layers.0._orig_mod.self_attn", "encoder layer 1 self_attn"),  # torch.compile
    ],
)
def test_places_have_readable_names(module: str, place: str) -> None:
    assert readable(module) == place


def test_one_picture_for_each_attention() -> None:
    assert [place for place, _ in _drawn(_observation())] == ["encoder layer 1", "decoder"]


def test_every_head_is_numbered_and_the_place_named(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[str, str, list[str]]] = []
    plain = pictures.draw_heatmaps

    def noting(maps: list[Heatmap], **options: Any) -> Image.Image:
        drawn.append((options["title"], options["subtitle"], [one.title for one in maps]))
        return plain(maps, **options)

    monkeypatch.setattr(pictures, "draw_heatmaps", noting)
    _drawn(_observation())
    assert drawn == [
        ("ab → x y", "encoder layer 1", ["head 1", "head 2"]),
        ("ab → x y", "decoder", [""]),
    ]


@pytest.mark.parametrize("text", ["ab", "a/b\\c:../..", "", "\x00", "word " * 2000, "日本語", "<script>"])
def test_files_are_named_after_short_texts_and_stay_in_their_folder(text: str, tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    paths = save_pictures([_observation(text)], folder)
    assert sorted(paths) == sorted(folder.iterdir())
    assert [
        path.name.endswith(end)
        for path, end in zip(paths, ("encoder-layer-1.png", "decoder.png"), strict=True)
    ]
    assert all(len(path.name) < 80 for path in paths)
    for path in paths:
        with Image.open(path) as picture:
            assert picture.size[0] > 100


def test_a_word_is_in_its_file_name(tmp_path: Path) -> None:
    assert save_pictures([_observation("it's")], tmp_path)[1].name == "01_it-s_decoder.png"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("हिन्दी", "हिन्दी"),
        ("cafe\u0301 au lait", "cafe\u0301-au-lait"),
        ("❤\ufe0f a", "a"),
        ("a\u0301 \u0301b", "a\u0301-b"),
    ],
)
def test_vowel_signs_and_accents_stay_in_a_file_name(text: str, name: str, tmp_path: Path) -> None:
    assert save_pictures([_observation(text)], tmp_path)[1].name == f"01_{name}_decoder.png"


def test_a_long_input_is_cut_in_its_file_name(tmp_path: Path) -> None:
    path = save_pictures([_observation("nine hundred and eighty - one")], tmp_path)[1]
    assert path.name == "01_nine-hundred-and-eighty_decoder.png"


def test_modules_with_names_alike_have_a_file_each(tmp_path: Path) -> None:
    weights = torch.ones(1, 3, 2) / 2
    observation = _observation("ab", {"layers.0": weights, "h.0": weights, "x.y": weights, "x y": weights})
    paths = save_pictures([observation], tmp_path)
    assert len(set(paths)) == 4 and sorted(tmp_path.iterdir()) == sorted(paths)
    assert readable_names(["layers.0", "h.0", "decoder.attention"]) == {
        "layers.0": "layers.0",
        "h.0": "h.0",
        "decoder.attention": "decoder",
    }


def test_attention_to_a_picture_is_drawn_over_it(tmp_path: Path) -> None:
    cells = torch.softmax(torch.randn(2, 3, 8), -1)
    places = [f"r{row}c{column}" for column in range(4) for row in range(2)]
    gold = torch.tensor([[0, 1], [4, -1], [-1, -1]])
    observation = _observation(
        "image of 8 x 4",
        {DECODER: cells, "encoder.attention": torch.ones(1, 2, 2) / 2},
        {
            DECODER: QueriesAndKeys(["x", "y", "</s>"], places, gold, make_ink(torch.rand(4, 8), 2)),
            "encoder.attention": QueriesAndKeys(["a", "b"], ["a", "b"]),
        },
    )
    drawn = dict(_drawn(observation))
    assert list(drawn) == ["decoder head 1", "decoder head 2", "encoder"]
    assert [picture.mode for picture in drawn.values()] == ["RGB", "RGB", "P"]  # in colour, or a heatmap
    records = {readable(record.module): record for record in observation.records}
    assert {place: record.kind for place, record in records.items()} == {
        "decoder": "picture",
        "encoder": "sequence",
    }
    assert records["decoder"].gold is not None and records["encoder"].gold is None
    assert records["encoder"].queries == ["a", "b"]
    paths = save_pictures([observation], tmp_path)
    assert paths[0].name == "01_image-of-8-x-4_decoder-head-1.png"


def test_the_only_head_over_a_picture_has_no_number() -> None:
    sides = QueriesAndKeys(["x"], list("abcdefgh"), None, make_ink(torch.rand(4, 8), 2))
    drawn = _drawn(_observation("image", {DECODER: torch.full((1, 1, 8), 1 / 8)}, {DECODER: sides}))
    assert [name for name, _ in drawn] == ["decoder"]


def test_numbers_on_one_axis_are_kept_as_numbers() -> None:
    x = (torch.tensor([0.5, 1, 2]), torch.tensor([-1.25, 3]))
    for record in _observation(
        queries_and_keys=dict.fromkeys((ENCODER, DECODER), SIDES._replace(x=x))
    ).records:
        assert record.kind == "regression" and record.x is not None
        assert [side.tolist() for side in record.x] == [[0.5, 1, 2], [-1.25, 3]]


def test_pictures_of_one_attention_share_a_scale_that_fits_its_weights(tmp_path: Path) -> None:
    """Small weights are dark; a decoder whose weights are large keeps the scale to 1."""
    small, first = torch.full((2, 3, 2), 0.05), torch.full((2, 3, 2), 0.05)
    first[0, 0, 0] = 0.15
    large = torch.full((1, 3, 2), 0.6)
    observations = [_observation(weights={ENCODER: weights, DECODER: large}) for weights in (first, small)]
    tops = pictures.scale_tops(observations)
    assert tops == {"encoder layer 1": 0.16, "decoder": 1.0}
    paths = save_pictures(observations, tmp_path)
    shared = np.asarray(Image.open(BytesIO(paths[2].read_bytes())).convert("L"))
    (_, alone), _ = _drawn(observations[1])
    left = slice(0, shared.shape[1] // 2)  # of the colour bar
    scales = [np.sort(np.asarray(x)[60:110, left].ravel()) for x in (shared, alone.convert("L"))]
    assert not np.array_equal(*scales) and scales[0].mean() > scales[1].mean(), "it has the scale of both"
