"""docaudit: the privacy audit of document-understanding models."""

import os

__version__ = "0.13.2"
PROJECT = "docaudit"
"""Tells this package from one of the same name that another distribution brings."""

# Read by Intel's matrix library before its first product. Without it a row of a product depends, in
# its last bits, on the rows beside it and on the number of threads. It costs about no time
# (benchmarks/performance/bits.md).
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
