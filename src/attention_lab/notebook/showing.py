"""`show`: make a view of weights, recordings or models."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from attention_lab.argument_checks import kind_of
from attention_lab.console_text import counted
from attention_lab.notebook.checks import check_names, check_texts, check_unused, warn_of_nan, whole_numbers
from attention_lab.notebook.matching import Labels, Side, as_text, for_module, labels_of, labels_of_examples
from attention_lab.notebook.view import View
from attention_lab.tensorboard_plugin.arrays import array, broadcast, warn_if_clipped
from attention_lab.tensorboard_plugin.description import readable_names
from attention_lab.tensorboard_plugin.image_patches import BatchImages, numbered
from attention_lab.tensorboard_plugin.record import AttentionRecord

Theme = Literal["auto", "light", "dark"]
Runs = dict[str, dict[str, AttentionRecord]]
"""Records by run and by tag, `example 1/module`."""


def show(
    attention: Any,
    queries: Any = None,
    keys: Any = None,
    *,
    mask: Any = None,
    gold: Any = None,
    input: str = "",  # noqa: A002
    output: str = "",
    names: Sequence[str] | None = None,
    heads: Any = None,
    tokenizer: Any = None,
    images: Any = None,
    patch_size: int | None = None,
    title: str = "",
    theme: Theme = "auto",
    height: int | None = None,
) -> View:
    """Show attention weights, as the last expression of a notebook cell or in a file.

    The view is that of the Attention tab. It runs in a sandbox and loads nothing. A warning counts weights
    that are NaN or infinite, which are not drawn as 0.

    For example:

        attention_lab.show(weights, ["the", "cat"], ["die", "Katze"])  # [heads, queries, keys]
        with attention_lab.recording(model) as weights:
            model(batch)
        attention_lab.show(weights, tokens).save("attention.html")
        attention_lab.show(model, tokenizer("The cat sat.", return_tensors="pt"))  # of transformers
        attention_lab.show(attention_lab.load("best.ckpt"), ["attention"])
        attention_lab.show(vision_transformer, pixels, images=pixels)  # [examples, channels, height, width]

    Args:
        attention: weights `[Q, K]`, `[H, Q, K]` or `[B, H, Q, K]` as a tensor, array or list; a sequence of
            weights `[B, H, Q, K]`, one for each layer, as a model of transformers returns them; a recording
            or mapping of weights by module name; a mapping of such mappings by run, to compare runs; or a
            model, which `show` then runs.
        queries: a label for each row, or one such list for each of the B examples, with None for padding.
            For a model, its inputs: the output of its tokenizer, a mapping of keyword arguments, a tensor, or
            texts for a model from `attention_lab.load`.
        keys: a label for each column, or one such list for each example; the queries' labels by default. For
            a model, labels of its positions if the inputs do not include them. In an encoder-decoder, each
            module uses the labels that match its size: the source's (keys) or the target's (queries).
        mask: bool, broadcastable to the weights, or a mapping of masks by module name; True = attended.
            Recordings contain their own.
        gold: `[Q]` or `[Q, G]`, the correct keys of each query, -1 for none; they are outlined.
        input: the example as text.
        output: the model's output for it.
        names: modules to show; all by default.
        heads: numbers of the heads to show, counted from 0: a list, array or tensor; all by default.
        tokenizer: a transformers tokenizer, needed if the inputs do not include their tokens.
        images: the image of each example, `[B, C, H, W]`, `[B, H, W, C]` or `[B, H, W]`. Attention whose keys
            are its patches, row by row, is laid over it; class tokens and registers before them are left out.
            Causal attention, and attention to the tokens of `input_ids`, is not.
        patch_size: side of a patch of the images in pixels; for a model, by default that of its first
            convolution whose stride is its kernel size.
        title: title of the page.
        theme: "light", "dark", or "auto" to follow the notebook (JupyterLab, VS Code, Colab) or the system.
        height: height of the view in a notebook, in pixels; by default as much as the weights need.

    Raises:
        ValueError: shapes or labels do not fit each other, no attention has the patches of the images, or
            there is nothing to show.
        LabError: the height is not a number of at least 1.
    """
    heads = None if heads is None else whole_numbers(heads)
    if names is not None and (isinstance(names, str) or not isinstance(names, Collection)):
        raise ValueError(f"names={names!r}: give a list of names, such as [{str(names)!r}]")
    check_texts(title=title, input=input, output=output)
    if patch_size is not None and images is None:
        raise ValueError("patch_size is for images: give images=... as well")
    options = {"mask": mask, "gold": gold, "input": input, "output": output, "heads": heads}
    if callable(getattr(attention, "observe", None)):
        given = {"keys": keys, "mask": mask, "gold": gold, "tokenizer": tokenizer, "images": images}
        check_unused(**given, input=input or None, output=output or None)
        runs = {"": _observed(attention, queries, names, heads)}
    elif _is_model(attention):
        from attention_lab.notebook.models import record_model  # needs torch

        weights, examples = record_model(attention, queries, keys, names, heads, tokenizer)
        runs = {"": records_of(weights, examples, names=None, **{**options, "heads": None}, numbers=heads)}
    else:
        if tokenizer is not None:
            raise ValueError(
                "show(weights, ...) takes labels, not a tokenizer: give tokenizer.convert_ids_to_tokens(ids)"
            )
        examples, by_run = labels_of_examples(queries, keys), _by_run(attention)
        if images is not None:  # which label the keys
            examples = [one._replace(strict=False) for one in examples]
        modules = dict.fromkeys(module for weights in by_run.values() for module in weights)
        for of_modules in (mask, gold):
            check_names(of_modules if isinstance(of_modules, Mapping) else None, modules)
        runs = {run: records_of(weights, examples, names=names, **options) for run, weights in by_run.items()}
    if not any(runs.values()):
        missing = (
            "the model computed none that can be recorded" if _is_model(attention) else "there are no weights"
        )
        reason = missing if names is None else "nothing was recorded under these names"
        raise ValueError(f"there is no attention to show: {reason}")
    if images is not None:
        with_tokens = _is_model(attention) and keys is None  # its only labels are those of token ids
        runs = _over_images(runs, BatchImages(images, patch_size, attention), with_tokens=with_tokens)
    warn_of_nan(runs)
    return View(runs, title=title, theme=theme, height=height)


def _is_model(value: Any) -> bool:
    if isinstance(value, type):
        raise ValueError(f"show takes a model or weights, not {kind_of(value)}")
    return callable(value) and callable(getattr(value, "named_modules", None))


def _by_run(attention: Any) -> dict[str, Mapping[str, Any]]:
    """The weights by module name, for each run."""
    if isinstance(attention, list | tuple) and all(map(_is_layer, attention)):
        return {"": {f"layer {number}": one for number, one in enumerate(attention)}}
    if not isinstance(attention, Mapping):
        return {"": {"": attention}}
    if attention and all(isinstance(value, Mapping) for value in attention.values()):
        return {str(run): weights for run, weights in attention.items()}
    return {"": attention}


def _is_layer(weights: Any) -> bool:
    """Whether an item of a sequence has the weights of a layer, or is what is returned in place of them."""
    return weights is None or getattr(weights, "ndim", 0) == 4


def records_of(
    weights: Mapping[str, Any],
    examples: Sequence[Labels],
    *,
    names: Sequence[str] | None,
    mask: Any,
    gold: Any,
    input: str,  # noqa: A002
    output: str,
    heads: Sequence[int] | None,
    numbers: Sequence[int] | None = None,
) -> dict[str, AttentionRecord]:
    """The records of each example and module, by tag; `numbers` are the heads if they were chosen before."""
    check_names(names, weights)
    records: dict[str, AttentionRecord] = {}
    for module in weights if names is None else names:
        values = _four_dimensional(weights[module], f"weights of {module}" if module else "weights")
        given = _mask(weights, module, mask)
        attended = None if given is None else broadcast(array(given, np.bool_, "mask"), values.shape)
        if 1 < len(examples) != len(values):
            raise ValueError(f"there are labels for {len(examples)} examples, but weights for {len(values)}")
        for number in range(len(values)):
            labels = examples[number] if len(examples) > 1 else examples[0]
            record = _without_padding(
                module, values[number], None if attended is None else attended[number], labels
            )
            records[f"example {number + 1}/{_tag(module)}"] = replace(
                _with_heads(replace(record, heads=numbers), heads),
                gold=_gold(gold, module),
                input=input or (as_text(labels) if len(examples) > 1 else ""),
                output=output,
            )
    return dict(sorted(records.items(), key=lambda item: _number(item[0])))


def _over_images(runs: Runs, images: BatchImages, *, with_tokens: bool) -> Runs:
    """The records over the images of their examples; not those whose labelled keys are tokens of a text."""
    found = {
        run: {
            tag: record
            if with_tokens and not numbered(record.keys)
            else images.below(_number(tag) - 1, record)
            for tag, record in records.items()
        }
        for run, records in runs.items()
    }
    most = max(_number(tag) for records in found.values() for tag in records)
    if len(images.pictures) > most:
        raise ValueError(f"{len(images.pictures)} images for {counted(most, 'example')}: {images.wanted}")
    images.check_used(record for records in found.values() for record in records.values())
    return found


def _number(tag: str) -> int:
    return int(tag.split("/")[0].split()[1])


def _tag(module: str) -> str:
    return module or "attention"


def _mask(weights: Mapping[str, Any], module: str, mask: Any) -> Any:
    if mask is not None:
        return for_module(mask, module)
    known = getattr(weights, "mask", None)
    return known(module) if callable(known) else None


def _four_dimensional(given: Any, name: str) -> npt.NDArray[np.float32]:
    """The weights with four dimensions: examples, heads, queries and keys."""
    if given is None:
        raise ValueError(f"{name} are None, so the model did not compute them: show(model, inputs) does")
    values = array(given, np.float32, name)
    if values.ndim not in (2, 3, 4) or 0 in values.shape:
        raise ValueError(f"{name} must have the shape [Q, K], [H, Q, K] or [B, H, Q, K], not {values.shape}")
    warn_if_clipped(values, f"show: {name}")
    return values[(None,) * (4 - values.ndim)]


def _without_padding(
    module: str, weights: npt.NDArray[np.float32], mask: npt.NDArray[np.bool_] | None, labels: Labels
) -> AttentionRecord:
    """The record of the weights `[H, Q, K]` of an attention on one example, with labels."""
    _, size, width = weights.shape
    queries, keys = labels_of(module, size, width, labels)
    rows, columns = _kept(queries), _kept(keys)
    named = module or "the attention"
    if not len(rows) or not len(columns):
        raise ValueError(f"{named}: all queries or all keys of an example are padding")
    if keys[-1] is None and mask is not None and mask[..., -1].any() and not mask[..., 0].any():
        raise ValueError(
            f"{named}: {len(columns)} labels for {width} keys, but the first keys are masked: give a label "
            "or None for each position of padding on the left, too"
        )
    if len(rows) < len(queries) or len(columns) < len(keys):
        weights = weights[:, rows[:, None], columns]
        mask = None if mask is None else mask[:, rows[:, None], columns]
    return AttentionRecord(
        weights=weights,
        queries=[str(queries[row]) for row in rows],
        keys=[str(keys[column]) for column in columns],
        module=module,
        mask=None if mask is None or mask.all() else np.ascontiguousarray(mask),
    )


def _gold(given: Any, module: str) -> npt.NDArray[np.int64] | None:
    """The correct keys of each query of a module; None if a mapping by module name has none."""
    gold = for_module(given, module)
    return None if gold is None else array(gold, np.int64, "gold")


def _kept(side: Side) -> npt.NDArray[np.int64]:
    return np.array([at for at, label in enumerate(side) if label is not None], np.int64)


def _observed(
    model: Any, inputs: Any, names: Sequence[str] | None, heads: Sequence[int] | None
) -> dict[str, AttentionRecord]:
    """The records of a model that has its own `observe`, such as one from `attention_lab.load`."""
    observations = model.observe(inputs)
    places = readable_names(record.module for one in observations for record in one.records)
    check_names(names, dict.fromkeys(places))
    return {
        f"example {number}/{_tag(places[record.module])}": _with_heads(record, heads)
        for number, observation in enumerate(observations, start=1)
        for record in observation.records
        if names is None or record.module in names
    }


def _with_heads(record: AttentionRecord, heads: Sequence[int] | None) -> AttentionRecord:
    """A record of some of the heads."""
    if heads is None:
        return record
    if not heads or not 0 <= min(heads) <= max(heads) < len(record.weights):
        name = record.module or "the attention"
        raise ValueError(f"heads={list(heads)}: {name} has heads 0 to {len(record.weights) - 1}")
    mask = None if record.mask is None else record.mask[heads]
    if mask is not None and mask.all():
        mask = None
    return replace(record, weights=record.weights[heads], mask=mask, heads=heads)
