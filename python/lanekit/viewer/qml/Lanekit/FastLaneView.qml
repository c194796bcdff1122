import QtQuick
import Lanekit

// One run's picture with its numbers. All state is in the view model.
Rectangle {
    id: view

    required property FastLaneViewModel model

    // One of many in a grid: few words, and no buttons.
    readonly property bool compact: view.height < 240 || view.width < 300

    color: Theme.background

    ZoomArea {
        id: zoomArea

        objectName: "zoomArea"
        anchors.left: parent.left
        anchors.right: parent.right
        anchors.top: parent.top
        anchors.bottom: bar.visible ? bar.top : parent.bottom
        zoom: view.model.zoom
        contentWidth: frame.frameWidth
        contentHeight: frame.frameHeight

        FrameItem {
            id: frame

            objectName: "frame"
            anchors.fill: parent
            opacity: view.model.stale ? 0.55 : 1
        }
    }

    EmptyState {
        anchors.centerIn: zoomArea
        width: zoomArea.width * 0.8
        title: view.model.hint
        detail: view.model.hintDetail
        runId: view.model.runId
        compact: view.compact
    }

    Hud {
        objectName: "hud"
        x: Theme.gap
        y: Theme.gap
        // What is not as usual is said although the numbers are hidden. Without a picture, the hint says it.
        visible: view.model.hint === "" && (view.model.hudVisible || view.model.stale || view.model.recording !== "")
        numbers: view.model.hudVisible
        stale: view.model.stale
        text: view.model.hudText
        status: view.model.status
        paused: view.model.paused
        recording: view.model.recording
        compact: view.compact
    }

    EvalOverlay {
        anchors.right: parent.right
        anchors.top: parent.top
        anchors.margins: Theme.gap
        text: view.model.evalText
    }

    Notice {
        objectName: "notice"
        anchors.left: zoomArea.left
        anchors.bottom: zoomArea.bottom
        anchors.margins: Theme.gap
        room: zoomArea.width - 2 * Theme.gap
        text: view.model.notice
        bad: view.model.noticeIsBad
    }

    HelpOverlay {
        objectName: "help"
        anchors.centerIn: zoomArea
        scale: Math.min(1, (zoomArea.height - Theme.gap) / height, (zoomArea.width - Theme.gap) / width)
        visible: view.model.helpVisible
        shortcuts: view.model.shortcuts
    }

    HoverHandler {
        id: hover
    }

    ControlBar {
        id: bar

        objectName: "bar"
        anchors.left: parent.left
        anchors.right: parent.right
        anchors.bottom: parent.bottom
        visible: view.model.fullScreen ? hover.hovered && hover.point.position.y > view.height - 3 * height : !view.compact
        model: view.model
        zoom: view.model.zoom
    }
}
