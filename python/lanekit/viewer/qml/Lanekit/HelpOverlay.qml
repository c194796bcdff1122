import QtQuick
import Lanekit

// Every key and what it does.
Rectangle {
    id: overlay

    required property list<var> shortcuts

    width: rows.width + 4 * Theme.gap
    height: rows.height + 4 * Theme.gap
    radius: Theme.radius
    color: Theme.surface
    border.width: 1
    border.color: Theme.outline

    Column {
        id: rows

        x: 2 * Theme.gap
        y: 2 * Theme.gap
        spacing: 5

        Text {
            text: "Keys and mouse"
            color: Theme.text
            font.pixelSize: Theme.normalText
            font.bold: true
            bottomPadding: Theme.gap / 2
        }

        Repeater {
            model: overlay.shortcuts

            Row {
                id: row

                required property var modelData

                spacing: 2 * Theme.gap

                Text {
                    id: keys

                    width: 92
                    text: row.modelData.keys
                    color: Theme.accent
                    font.pixelSize: Theme.smallText
                    font.family: Theme.monospace
                }

                Text {
                    anchors.baseline: keys.baseline
                    width: 230
                    text: row.modelData.label
                    color: Theme.text
                    font.pixelSize: Theme.smallText
                }
            }
        }
    }
}
