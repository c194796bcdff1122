"""How much the curves are smoothed: a slider over windows of 1, 2, 5, 10 ... numbers."""

from __future__ import annotations

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtWidgets import QHBoxLayout, QLabel, QSlider, QWidget

WINDOWS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
USUAL = WINDOWS.index(20)


class SmoothingSlider(QWidget):
    """The slider with words beside it."""

    window_changed = pyqtSignal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.slider = QSlider(Qt.Orientation.Horizontal, self)
        self.slider.setRange(0, len(WINDOWS) - 1)
        self.slider.setPageStep(2)
        self.slider.setFixedWidth(130)
        self.slider.setToolTip(
            "Over how many episodes or steps the bright line is the mean. The faint line is "
            "always the numbers as they are."
        )
        self._label = QLabel(self)
        # As wide as its longest text, so that the slider does not move under the hand.
        self._label.setText("mean of 10,000")
        self._label.setFixedWidth(self._label.sizeHint().width())
        self._label.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        title = QLabel("Smoothing", self)
        title.setObjectName("quiet")
        title.setBuddy(self.slider)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        for widget in (title, self.slider, self._label):
            layout.addWidget(widget)
        self.slider.valueChanged.connect(self._tell)
        self.slider.setValue(USUAL)

    @property
    def window_size(self) -> int:
        """Over how many numbers the mean goes."""
        return WINDOWS[self.slider.value()]

    def _tell(self) -> None:
        size = self.window_size
        self._label.setText("off" if size == 1 else f"mean of {size:,}")
        self.window_changed.emit(size)
