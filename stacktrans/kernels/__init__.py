"""Code compiled by numba that runs a controller and any memory over whole sequences.

`stacktrans.memory` and `stacktrans.model.controllers` define in torch what is computed here. A
memory brings its own compiled steps (see `kernel`). Everything here is imported only when it is
needed, since numba loads slowly.
"""

import os
from typing import Any

import numpy as np

# Without this, importing numba makes colorama write to the terminal when the process exits.
os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")

Array = np.ndarray[Any, Any]
