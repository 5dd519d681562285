"""A small run with tags and notes, which loggers show."""

SMALL = [
    *("model=seq2seq", "data=reverse", "data.train_size=20", "data.validation_size=4", "data.test_size=4"),
    *("data.max_length=4", "model.embedding_size=4", "model.hidden_size=4", "trainer.max_epochs=1"),
    *("pictures=0", "callbacks.attention_maps.examples=1", "tags=[first try,lstm]", "notes=hello"),
]
