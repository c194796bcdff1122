import QtQuick
import Lanekit

// The strip of buttons below a live picture.
Rectangle {
    id: bar

    required property FastLaneViewModel model
    required property ZoomModel zoom

    readonly property bool recording: bar.model.recording !== ""

    height: Theme.barHeight
    color: Theme.surface

    Rectangle {
        width: parent.width
        height: 1
        color: Theme.outline
    }

    Row {
        anchors.left: parent.left
        anchors.leftMargin: Theme.gap
        anchors.verticalCenter: parent.verticalCenter
        spacing: 2

        IconButton {
            objectName: "pauseButton"
            icon: bar.model.paused ? Icons.play : Icons.pause
            filled: true
            iconColor: bar.model.paused ? Theme.waiting : Theme.text
            tooltip: bar.model.paused ? "Go on with the newest frame (Space)" : bar.model.tooltips.pause
            onClicked: bar.model.act("pause")
        }

        BarGap {}

        IconButton {
            objectName: "screenshotButton"
            icon: Icons.screenshot
            tooltip: bar.model.tooltips.screenshot
            onClicked: bar.model.act("screenshot")
        }

        IconButton {
            objectName: "recordButton"
            icon: bar.recording ? Icons.stop : Icons.record
            filled: true
            iconColor: Theme.bad
            tooltip: bar.recording ? "Stop recording (R)" : bar.model.tooltips.record
            onClicked: bar.model.act("record")
        }

        IconButton {
            objectName: "gifButton"
            visible: !bar.recording
            icon: Icons.film
            tooltip: bar.model.tooltips.record_gif
            onClicked: bar.model.act("record_gif")
        }
    }

    Row {
        anchors.right: parent.right
        anchors.rightMargin: Theme.gap
        anchors.verticalCenter: parent.verticalCenter
        spacing: 2

        Text {
            objectName: "scaleText"
            anchors.verticalCenter: parent.verticalCenter
            rightPadding: Theme.gap
            visible: bar.width > 460 && bar.zoom.scale > 0
            text: Math.round(bar.zoom.scale * 100) + " %"
            color: Theme.quietText
            font.pixelSize: Theme.smallText
        }

        ZoomButtons {
            model: bar.model
            visible: bar.width > 380
        }

        BarGap {}

        IconButton {
            objectName: "hudButton"
            icon: Icons.hud
            active: bar.model.hudVisible
            tooltip: bar.model.tooltips.hud
            onClicked: bar.model.act("hud")
        }

        IconButton {
            objectName: "fullScreenButton"
            icon: Icons.fullScreen
            active: bar.model.fullScreen
            tooltip: bar.model.fullScreen ? "Back into the window (Esc)" : bar.model.tooltips.full_screen
            onClicked: bar.model.act("full_screen")
        }

        IconButton {
            objectName: "helpButton"
            icon: Icons.help
            active: bar.model.helpVisible
            tooltip: bar.model.tooltips.help
            onClicked: bar.model.act("help")
        }
    }
}
