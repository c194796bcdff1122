import QtQuick
import Lanekit

// The numbers over the picture.
Rectangle {
    id: hud

    required property string text
    required property string status
    required property bool paused
    required property bool recording

    width: lines.width + 2 * Theme.gap
    height: lines.height + 2 * Theme.gap
    radius: Theme.radius
    color: Theme.shade

    Column {
        id: lines

        x: Theme.gap
        y: Theme.gap
        spacing: 2

        StatusBadge {
            status: hud.status
        }

        Text {
            objectName: "hudText"
            text: hud.text
            visible: hud.text !== ""
            color: Theme.shadeText
            font.pixelSize: Theme.normalText
            font.family: "monospace"
        }

        Text {
            text: "paused - training goes on"
            visible: hud.paused
            color: Theme.waiting
            font.pixelSize: Theme.smallText
        }

        Text {
            text: "● recording"
            visible: hud.recording
            color: Theme.bad
            font.pixelSize: Theme.smallText
        }
    }
}
