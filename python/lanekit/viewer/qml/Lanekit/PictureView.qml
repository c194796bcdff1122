import QtQuick
import Lanekit

// One picture, and nothing else.
Rectangle {
    id: view

    required property ZoomModel zoom

    color: Theme.background

    ZoomArea {
        objectName: "zoomArea"
        anchors.fill: parent
        zoom: view.zoom
        contentWidth: frame.frameWidth
        contentHeight: frame.frameHeight

        FrameItem {
            id: frame

            objectName: "frame"
            anchors.fill: parent
        }
    }
}
