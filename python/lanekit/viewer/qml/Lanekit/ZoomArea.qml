import QtQuick

// Fits its content, keeps its aspect ratio, and lets people zoom with the wheel and drag.
Item {
    id: area

    required property real contentWidth
    required property real contentHeight
    default property alias content: stage.data

    readonly property real fit: contentWidth > 0 && contentHeight > 0 ? Math.min(width / contentWidth, height / contentHeight) : 0
    property real zoom: 1
    property real panX: 0
    property real panY: 0
    readonly property real limitX: Math.max(0, (stage.width - width) / 2)
    readonly property real limitY: Math.max(0, (stage.height - height) / 2)

    function reset() {
        zoom = 1;
        panX = 0;
        panY = 0;
    }

    clip: true

    Item {
        id: stage

        objectName: "stage"
        width: Math.round(area.contentWidth * area.fit * area.zoom)
        height: Math.round(area.contentHeight * area.fit * area.zoom)
        x: Math.round((area.width - width) / 2 + Math.max(-area.limitX, Math.min(area.limitX, area.panX)))
        y: Math.round((area.height - height) / 2 + Math.max(-area.limitY, Math.min(area.limitY, area.panY)))
    }

    WheelHandler {
        onWheel: event => area.zoom = Math.max(1, Math.min(64, area.zoom * (event.angleDelta.y > 0 ? 1.25 : 0.8)))
    }

    DragHandler {
        target: null
        onActiveTranslationChanged: delta => {
            area.panX = Math.max(-area.limitX, Math.min(area.limitX, area.panX + delta.x));
            area.panY = Math.max(-area.limitY, Math.min(area.limitY, area.panY + delta.y));
        }
    }

    TapHandler {
        onDoubleTapped: area.reset()
    }
}
