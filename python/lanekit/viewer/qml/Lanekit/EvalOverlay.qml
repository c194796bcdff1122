import QtQuick
import Lanekit

// What an evaluation has found so far.
Rectangle {
    id: overlay

    required property string text

    width: content.width + 2 * Theme.gap
    height: content.height + 2 * Theme.gap
    radius: Theme.radius
    color: Theme.shade
    visible: overlay.text !== ""

    Text {
        id: content

        objectName: "evalText"
        x: Theme.gap
        y: Theme.gap
        text: overlay.text
        color: Theme.shadeText
        font.pixelSize: Theme.normalText
        font.family: Theme.monospace
    }
}
