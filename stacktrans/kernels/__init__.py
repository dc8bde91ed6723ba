"""Controller and memory over whole sequences in compiled code.

What is computed is defined by `stacktrans.memory` and `stacktrans.model.controllers`;
here it is computed faster, where it can be. Nothing outside imports more than
`stacktrans.model.fused`, and that only when it is needed: numba takes
its time to load.
"""
