"""Types of the stress tool's cffi extension; it is imported by ``lanekit.stress`` workers alone."""

from typing import Any, Final

class CData:
    def __getattr__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: Any) -> None: ...
    def __getitem__(self, index: Any) -> Any: ...
    def __setitem__(self, index: Any, value: Any) -> None: ...

class _FFI:
    NULL: Final[CData]
    errno: int
    def new(self, kind: str, init: Any = ...) -> CData: ...
    def from_buffer(self, source: Any, require_writable: bool = ...) -> CData: ...

class _Lib:
    LK_STRESS_FRAMES: Final[int]
    LK_STRESS_MESSAGE_PASSING: Final[int]
    LK_STRESS_SEQLOCK: Final[int]
    LK_STRESS_STORE_BUFFERING: Final[int]
    LK_STRESS_SOUND: Final[int]
    LK_STRESS_TORN: Final[int]
    LK_STRESS_EARLY_HEAD: Final[int]
    LK_STRESS_RELAXED_COMMIT: Final[int]
    LK_STRESS_NO_ODD: Final[int]
    LK_STRESS_UNCHECKED_READER: Final[int]
    LK_STRESS_LOST_WAKE: Final[int]
    def lk_stress_start(self, out: CData, plan: CData) -> int: ...
    def lk_stress_poll(self, run: CData, out: CData) -> int: ...
    def lk_stress_stop(self, run: CData) -> None: ...
    def lk_stress_finish(self, run: CData, out: CData) -> int: ...
    def lk_stress_fill(
        self,
        seq: int,
        pixels: CData,
        pixels_size: int,
        metadata: CData,
        metadata_capacity: int,
        metrics: CData,
    ) -> int: ...
    def lk_stress_check(
        self,
        seq: int,
        pixels: CData,
        pixels_size: int,
        metadata: CData | bytes,
        metadata_size: int,
        metadata_capacity: int,
        last_reward: float,
        rolling_return: float,
        step_rate_hz: float,
    ) -> int: ...
    def lk_stress_metrics_seq(
        self, last_reward: float, rolling_return: float, step_rate_hz: float
    ) -> int: ...
    def lk_stress_pin(self, core: int) -> int: ...

ffi: Final[_FFI]
lib: Final[_Lib]
