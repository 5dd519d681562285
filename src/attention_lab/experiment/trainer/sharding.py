"""trainer=fsdp: train a model whose parameters are divided among several devices."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytorch_lightning as pl
from lightning_fabric.utilities.types import _PATH
from lightning_utilities.core.apply_func import apply_to_collection
from pytorch_lightning.strategies import ModelParallelStrategy
from torch import Tensor
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer

from attention_lab.errors import LabError
from attention_lab.models.parts.encoder import EncoderLayer

PRECISIONS = ("32-true", "bf16-mixed", "bf16-true", "16-true")
STEPS = ("training_step", "validation_step", "test_step")


class FullyShardedStrategy(ModelParallelStrategy):
    """Fully sharded data parallelism by PyTorch's `fully_shard` (1910.02054, stage 3; 2304.11277).

    Each of n devices keeps a part of 1/n of every parameter, of its gradient and of the optimiser's state,
    and trains on its own batches. In a training step, the layers of an `Encoder` are gathered one at a time,
    and all other parameters are gathered during the entire step. The gradients and the checkpoints are those
    of `trainer=ddp`.

    Outside training steps, every device has all parameters: when decoding, devices need different numbers of
    steps, so they cannot gather together; and only one of them draws attention and writes embeddings.
    """

    def __init__(self) -> None:
        super().__init__(tensor_parallel_size=1, save_distributed_checkpoint=False)

    def setup_environment(self) -> None:
        """Connect the processes, and shard the module when Lightning asks it to configure its model."""
        self._data_parallel_size = self.num_nodes * self.num_processes
        super().setup_environment()
        module = self.lightning_module
        assert module is not None
        module.configure_model = partial(self._shard, module)  # type: ignore[method-assign]

    def setup(self, trainer: pl.Trainer) -> None:
        """Set up devices and the optimiser, which takes the sharded parameters; then gather them."""
        super().setup(trainer)
        self._gather()

    @property
    def lightning_restore_optimizer(self) -> bool:
        """True: Lightning restores the optimiser after callbacks have checked its state."""
        return True

    def load_checkpoint(self, checkpoint_path: _PATH, weights_only: bool | None = None) -> dict[str, Any]:
        """Read a checkpoint, as without sharding."""
        return self.checkpoint_io.load_checkpoint(checkpoint_path, weights_only=weights_only)

    def load_model_state_dict(self, checkpoint: Mapping[str, Any], strict: bool = True) -> None:
        """Load this device's part of the parameters, then gather them."""
        assert self.model is not None
        self._scatter()
        options = StateDictOptions(full_state_dict=True, strict=strict)
        set_model_state_dict(self.model, checkpoint["state_dict"], options=options)
        self._gather()

    def optimizer_state(self, optimizer: Optimizer) -> dict[str, Any]:
        """The entire state of an optimiser, on the CPU; empty except on the first device."""
        state = optimizer.state_dict()
        whole = apply_to_collection(state, DTensor, self._on_first_device)
        return whole if self.is_global_zero else {}

    def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
        """Load this device's part of the optimisers' states."""
        for optimizer, state in zip(self.optimizers, checkpoint["optimizer_states"], strict=True):
            parameters = [one for group in optimizer.param_groups for one in group["params"]]
            own = {
                number: {name: _part_like(value, parameters[number]) for name, value in values.items()}
                for number, values in state["state"].items()
            }
            optimizer.load_state_dict({**state, "state": own})

    def optimizer_step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """One step of an optimiser. Raises LabError if it needs more than this device's part of a tensor."""
        try:
            return super().optimizer_step(optimizer, *args, **kwargs)
        except RuntimeError as error:
            if "Sharding propagation failed" not in str(error):
                raise
            raise LabError(
                f"{type(optimizer).__name__} cannot train parameters that trainer=fsdp divides among "
                "devices: choose optimizer=adamw, or trainer=ddp"
            ) from None

    def on_train_start(self) -> None:
        """Keep only this device's part of the parameters."""
        self._scatter()

    def on_train_end(self) -> None:
        """Gather all parameters."""
        self._gather()

    def on_validation_start(self) -> None:
        """Gather all parameters."""
        self._gather()

    def on_validation_end(self) -> None:
        """Keep only this device's part of the parameters."""
        self._scatter()

    def _shard(self, module: pl.LightningModule) -> None:
        """Shard the parameters of the module, unless an earlier stage of the trainer has."""
        if isinstance(module, FSDPModule):
            self._scatter()
            return
        mesh = self.device_mesh["data_parallel"]
        # A decoder layer also projects the source, outside of its `forward`: it is gathered with the rest.
        layers = [one for one in module.modules() if isinstance(one, EncoderLayer)]
        sharded = [fully_shard(one, mesh=mesh) for one in (*layers, module)]
        # The next module to gather in the backward pass. PyTorch would infer it from all calls since the last
        # step. Decoding makes a different number of them on each device, so devices would wait forever.
        for before, one in zip((sharded[0], *sharded), sharded, strict=False):
            one.set_modules_to_backward_prefetch([before])
        for step in STEPS:
            register_fsdp_forward_method(module, step)

    def _on_first_device(self, tensor: DTensor) -> Tensor | None:
        whole = tensor.full_tensor()  # on every device, one tensor at a time
        return whole.cpu() if self.is_global_zero else None

    def _gather(self) -> None:
        """Gather all parameters on every device, where they stay until `_scatter`."""
        for module in self._sharded_modules():
            module.set_reshard_after_forward(False, recurse=False)
            module.unshard()

    def _scatter(self) -> None:
        """Free what `_gather` gathered; from now on, layers are gathered when they run."""
        for module in self._sharded_modules():
            module.reshard()
            module.set_reshard_after_forward(not isinstance(module, pl.LightningModule), recurse=False)

    def _sharded_modules(self) -> Iterator[FSDPModule]:
        assert self.lightning_module is not None
        return (one for one in self.lightning_module.modules() if isinstance(one, FSDPModule))


def check_sharding_precision(precision: object) -> None:
    """Raise LabError for a precision in which Lightning shards no model."""
    if str(precision) not in ("None", *PRECISIONS):
        raise LabError(
            f"trainer.precision={precision} does not work with trainer=fsdp: choose "
            f"{', '.join(PRECISIONS[:-1])} or {PRECISIONS[-1]}"
        )


def _part_like(value: Any, parameter: Tensor) -> Any:
    """This device's part of a tensor in the shape of a sharded parameter; any other value as it is."""
    if isinstance(value, Tensor) and isinstance(parameter, DTensor) and value.shape == parameter.shape:
        return distribute_tensor(value.to(parameter.device), parameter.device_mesh, parameter.placements)
    return value
