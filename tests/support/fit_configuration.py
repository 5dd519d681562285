"""The shortest valid configuration of a training run."""

from typing import Any

FIT: dict[str, Any] = {
    "stage": "fit",
    "trainer": {"_target_": "pytorch_lightning.Trainer", "default_root_dir": "/old/run", "devices": 1},
    "callbacks": {
        "resumable": {"_target_": "attention_lab.callbacks.Resumable", "dirpath": "/old/run/checkpoints"},
        "checkpoint": {
            "_target_": "pytorch_lightning.callbacks.ModelCheckpoint",
            "dirpath": "/old/run/checkpoints",
            "filename": "best-{validation/mse:.2f}",
            "monitor": "validation/mse",
        },
    },
    "logger": {
        "csv": {"_target_": "pytorch_lightning.loggers.CSVLogger", "save_dir": "/old/run", "name": ""},
        "mlflow": {"_target_": "attention_lab.loggers.MLFlowRunLogger", "tracking_uri": None},
        "wandb": {"_target_": "attention_lab.loggers.WandbRunLogger", "entity": None},
    },
    "optimizer": {"_target_": "torch.optim.RMSprop", "_partial_": True, "lr": 0.1},
    "schedule": {"_target_": "attention_lab.tasks.schedules.constant", "_partial_": True},
    "scoring": {"_target_": "attention_lab.attention.Gaussian", "_partial_": True},
    "normalizer": {"_target_": "attention_lab.attention.Softmax", "_partial_": True},
    "window": {"_target_": "attention_lab.attention.Global", "_partial_": True},
    "pooling": {"_target_": "attention_lab.attention.Soft", "_partial_": True},
    "task": {"_target_": "attention_lab.tasks.Regression"},
    "monitor": {"metric": None, "mode": "min"},
    "seed": 1,
    "ckpt_path": None,
    "model": {"_target_": "attention_lab.models.KernelRegression", "scan": True},
    "data": {"kind": "regression", "_target_": "attention_lab.data.CSVRegression", "path": "/data/mine.csv"},
}
