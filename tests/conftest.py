"""Settings of all tests: one thread, which is fastest for models this small."""

import torch

torch.set_num_threads(1)
