"""Fill a network's weights from the bench's own generator.

torch's initial values would do for sizes, but not for judging answers: its batch norms start as
the identity, which folds into convolutions without a bias, so no bias would ever be checked; and
they depend on torch's random generator, which is not ours to pin.
"""

from __future__ import annotations

import math
import zlib
from typing import Any

from harness.model.seeded import floats


def fill(network: Any, name: str) -> Any:
    """Give every parameter and statistic of ``network`` a value that depends on its name only.

    Weights are uniform within He's bound, so that signals neither fade nor grow with depth;
    batch-norm statistics and biases are small but not zero.  Returns the network, in evaluation
    mode.
    """
    import torch

    state = network.state_dict()
    for key, tensor in state.items():
        if not tensor.is_floating_point():
            continue
        noise = torch.tensor(
            floats(zlib.crc32(f"{name}/{key}".encode()), tensor.numel()), dtype=torch.float32
        ).reshape(tensor.shape)
        tensor.copy_(_shaped(key, noise))
    network.load_state_dict(state)
    return network.eval()


def _shaped(key: str, noise: Any) -> Any:
    """Noise in [-1, 1) moved into the range that suits the parameter called ``key``."""
    if key.endswith("running_var"):
        return 1.0 + 0.5 * noise
    if key.endswith(("running_mean", "bias")):
        return 0.25 * noise
    if noise.dim() < 2:  # a batch norm's scale
        return 1.0 + 0.25 * noise
    fan_in = math.prod(noise.shape[1:])
    return math.sqrt(6.0 / fan_in) * noise
