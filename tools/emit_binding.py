"""Write the C source of a cffi extension from a preprocessor-free header.

Called by CMake: ``emit_binding.py lanekit._native csrc/lanekit_api.h lanekit.h build/_native.c``.
"""

import sys
from pathlib import Path

from cffi import FFI


def main(module: str, declarations: str, header: str, output: str) -> None:
    """Generate `output`, the extension `module`; its C code sees `declarations` via `header`."""
    ffi = FFI()
    ffi.cdef(Path(declarations).read_text(encoding="utf-8"))
    ffi.set_source(module, f'#include "{header}"')
    ffi.emit_c_code(output)


if __name__ == "__main__":
    main(*sys.argv[1:])
