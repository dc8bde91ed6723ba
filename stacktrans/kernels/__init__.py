"""Controller and memory over whole sequences in compiled code, whatever the memory.

What is computed is defined by `stacktrans.memory` and `stacktrans.model.controllers`; here it is
computed faster, where it can be. A memory brings its own steps (see `drive`). All of this is
imported only when it is needed: numba takes its time to load.
"""

import os
from typing import Any

import numpy as np

# Otherwise numba, when it is imported, has colorama write to the terminal as the process ends.
os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")

Array = np.ndarray[Any, Any]
