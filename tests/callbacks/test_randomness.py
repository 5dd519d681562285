"""The random numbers of several processes that are seeded alike."""

import torch

from attention_lab.attention import Dropout
from attention_lab.callbacks.randomness import separate_random_numbers


def test_each_process_drops_other_elements_and_agrees_on_the_order_of_the_data() -> None:
    def dropped(rank: int) -> torch.Tensor:
        torch.manual_seed(1)
        if rank:
            separate_random_numbers(rank)
        assert torch.initial_seed() == 1
        return Dropout(0.5)(torch.ones(2**14)) == 0  # type: ignore[no-any-return]

    with torch.random.fork_rng():
        masks = [dropped(rank) for rank in range(3)]
        assert torch.equal(masks[1], dropped(1))
    for one, other in ((0, 1), (0, 2), (1, 2)):
        alike = float((masks[one] == masks[other]).double().mean())
        assert abs(alike - 0.5) < 4 * 0.5 / 2**7
