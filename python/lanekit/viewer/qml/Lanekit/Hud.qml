import QtQuick
import Lanekit

// The numbers over the picture.
Rectangle {
    id: hud

    required property string text
    required property string status
    required property bool numbers
    required property bool stale
    required property bool paused
    required property string recording
    required property bool compact

    width: lines.width + 2 * Theme.gap
    height: lines.height + 2 * Theme.gap
    radius: Theme.radius
    color: Theme.shade

    Column {
        id: lines

        x: Theme.gap
        y: Theme.gap
        spacing: 3

        StatusBadge {
            status: hud.status
        }

        Text {
            objectName: "hudText"
            text: hud.text
            visible: hud.numbers && hud.text !== ""
            color: Theme.shadeText
            font.pixelSize: hud.compact ? Theme.smallText : Theme.normalText
            font.family: Theme.monospace
        }

        Text {
            objectName: "staleText"
            text: hud.compact ? "last frame" : "last frame; waiting for the worker"
            visible: hud.stale
            color: Theme.shadeWaiting
            font.pixelSize: Theme.smallText
        }

        Text {
            objectName: "pausedText"
            text: hud.compact ? "paused" : "paused, training goes on"
            visible: hud.paused
            color: Theme.shadeWaiting
            font.pixelSize: Theme.smallText
        }

        Text {
            objectName: "recordingText"
            text: "● " + hud.recording
            visible: hud.recording !== ""
            color: Theme.shadeBad
            font.pixelSize: Theme.smallText
        }
    }
}
