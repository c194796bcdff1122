import QtQuick
import Lanekit

// Fits its content, keeps its aspect ratio, and lets people zoom with the wheel and drag.
Item {
    id: area

    required property ZoomModel zoom
    required property real contentWidth
    required property real contentHeight
    default property alias content: stage.data

    clip: true
    onWidthChanged: zoom.set_area(width, height)
    onHeightChanged: zoom.set_area(width, height)
    onContentWidthChanged: zoom.set_content(contentWidth, contentHeight)
    onContentHeightChanged: zoom.set_content(contentWidth, contentHeight)

    Item {
        id: stage

        objectName: "stage"
        x: area.zoom.stage.x
        y: area.zoom.stage.y
        width: area.zoom.stage.width
        height: area.zoom.stage.height
    }

    WheelHandler {
        acceptedDevices: PointerDevice.Mouse | PointerDevice.TouchPad
        onWheel: event => area.zoom.zoom_at(Math.pow(1.25, event.angleDelta.y / 120), event.x, event.y)
    }

    DragHandler {
        target: null
        onActiveTranslationChanged: delta => area.zoom.pan_by(delta.x, delta.y)
    }

    PinchHandler {
        target: null
        onScaleChanged: delta => area.zoom.zoom_at(delta, centroid.position.x, centroid.position.y)
    }

    TapHandler {
        onDoubleTapped: area.zoom.fit()
    }
}
