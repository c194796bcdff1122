"""Write the C source of the cffi extension `lanekit._native` from the core's declarations.

Called by CMake: ``emit_binding.py csrc/lanekit_api.h build/_native.c``.
"""

import sys
from pathlib import Path

from cffi import FFI


def main(declarations: str, output: str) -> None:
    """Generate `output` from the preprocessor-free header `declarations`."""
    ffi = FFI()
    ffi.cdef(Path(declarations).read_text(encoding="utf-8"))
    ffi.set_source("lanekit._native", '#include "lanekit.h"')
    ffi.emit_c_code(output)


if __name__ == "__main__":
    main(*sys.argv[1:])
