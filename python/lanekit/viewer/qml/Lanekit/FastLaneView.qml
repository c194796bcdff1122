import QtQuick
import Lanekit

// One run's picture with its numbers. All state is in the view model.
Rectangle {
    id: view

    required property FastLaneViewModel model

    color: Theme.background

    ZoomArea {
        id: zoomArea

        objectName: "zoomArea"
        anchors.fill: parent
        contentWidth: frame.frameWidth
        contentHeight: frame.frameHeight

        FrameItem {
            id: frame

            objectName: "frame"
            anchors.fill: parent
        }
    }

    Text {
        objectName: "hint"
        anchors.centerIn: parent
        width: parent.width * 0.8
        horizontalAlignment: Text.AlignHCenter
        wrapMode: Text.Wrap
        text: view.model.hint
        visible: text !== ""
        color: Theme.quietText
        font.pixelSize: Theme.largeText
    }

    Hud {
        objectName: "hud"
        x: Theme.gap
        y: Theme.gap
        visible: view.model.hudVisible
        text: view.model.hudText
        status: view.model.status
        paused: view.model.paused
        recording: view.model.recording
    }

    EvalOverlay {
        anchors.right: parent.right
        anchors.top: parent.top
        anchors.margins: Theme.gap
        text: view.model.evalText
    }

    Connections {
        target: view.model
        function onFitRequested() {
            zoomArea.reset();
        }
    }
}
