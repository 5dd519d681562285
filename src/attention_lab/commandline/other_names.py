"""Names that papers, books and other programs use, and what they are called here: for hints in errors."""

CHOICES = {
    "model": {
        "bahdanau": "model=seq2seq model.wiring=bahdanau scoring=additive",
        "luong": "model=seq2seq model.wiring=luong scoring=general",
        "encoder_decoder": "model=seq2seq or model=transformer",
        "lstm": "model=rnn to classify, or model=seq2seq to generate",
        "gru": "model=rnn to classify, or model=seq2seq to generate",
        "gpt": "model=lm",
        "language_model": "model=lm",
        "bert": "model=multihead",
        "vit": "model=multihead data=labelled_images model.readout=cls model.positions=learned",
        "self_attention": "model=multihead",
        "gat": "model=graph",
        "kernel_regression": "model=nw",
        "nadaraya_watson": "model=nw",
    },
    "scoring": {
        "bahdanau": "scoring=additive model.wiring=bahdanau",
        "luong": "scoring=dot, general, concat or location",
        "mlp": "scoring=additive",
        "bilinear": "scoring=general",
        "multiplicative": "scoring=general",
        "dot_product": "scoring=dot or scoring=scaled_dot",
        "rbf": "scoring=gaussian",
        "entmax": "normalizer=entmax15",
    },
    "normalizer": {
        "softmax1": "normalizer=sink normalizer.learnable=false",
        "softmax_one": "normalizer=sink normalizer.learnable=false",
        "off_by_one": "normalizer=sink normalizer.learnable=false",
        "attention_sink": "normalizer=sink",
    },
    "data": {"mnist": "data=digits", "translation": "data=pairs", "csv": "data=csv_regression"},
    "window": {"local": "window=local_m or window=local_p", "causal": "model=lm, whose attention is causal"},
    "stage": {
        "train": "stage=fit",
        "eval": "stage=test",
        "evaluate": "stage=test",
        "validate": "stage=test",
        "generate": "stage=predict",
        "translate": "stage=predict",
    },
    "hydra/sweeper": {"optuna": "sweep=optuna"},
}
"""By group or option, then by another name of one of its choices: what to write instead."""
OPTIONS = {
    "attention": "scoring=...",
    "kernel": "scoring=...",
    "learning_rate": "optimizer.lr",
    "batch": "data.batch_size",
    "steps": "trainer.max_steps",
    "num_steps": "trainer.max_steps",
    "heads": "model.heads",
    "num_heads": "model.heads",
    "n_heads": "model.heads",
    "layers": "model.layers",
    "num_layers": "model.layers",
    "kv_heads": "model.key_value_heads",
    "num_kv_heads": "model.key_value_heads",
    "num_key_value_heads": "model.key_value_heads",
    "hidden": "model.hidden_size",
    "num_hiddens": "model.hidden_size",
    "beam": "task.beam_size",
    "positional_encoding": "model.positions",
    "random_seed": "seed",
    "patience": "callbacks=early_stopping callbacks.early_stopping.patience",
    "device": "trainer.accelerator=cpu or trainer.accelerator=gpu",
    "cuda": "trainer.accelerator=gpu",
    "gpu": "trainer.accelerator=gpu",
    "gpus": "trainer.devices",
    "trainer.gpus": "trainer.devices",
    "checkpoint": "ckpt_path",
    "output_dir": "hydra.run.dir",
    "log_dir": "hydra.run.dir",
    "logdir": "hydra.run.dir",
    "file": "data.file",
    "hydra.sweeper.n_trials": "sweep.trials",
    "hydra.sweeper.study_name": "sweep.study",
    "hydra.sweeper.storage": "sweep.storage",
    "hydra/sweeper/sampler": "sweep/sampler",
}
"""By another name of an option: what to write instead."""
SIBLINGS = {
    "model.hidden_size": "model.d_model",
    "model.d_model": "model.hidden_size",
    "data.size": "data.train_size",
    "data.train_size": "data.size",
}
"""By an option of some choices of a group: what others call it."""
OWN_FILES = {
    "nw": "data=csv_regression data.file={0}",
    "lm": "data=text data.file={0}",
    "graph": "data=graph_files data.edges={0} data.nodes=...",
    "image2seq": "data=image_files data.file={0}",
    **dict.fromkeys(("multihead", "cnn", "rnn"), "data=labelled data.file={0}"),
}
"""By model: the data that reads the user's own files, where it is not `pairs`."""


def meant_by(group: str, choice: str) -> str:
    """What to write for a choice given by another name; empty if the name is not listed."""
    return CHOICES.get(group, {}).get(choice.lower().replace("-", "_"), "")
