import QtQuick
import Lanekit

// How things stand with the run's writer, as a coloured dot and a word.
Row {
    id: badge

    required property string status

    readonly property var colours: ({ "connected": Theme.shadeGood, "reconnecting": Theme.shadeWaiting })

    readonly property var words: ({ "fastlane-unavailable": "no worker yet" })

    spacing: Theme.gap

    Rectangle {
        width: 8
        height: 8
        radius: 4
        anchors.verticalCenter: parent.verticalCenter
        color: badge.colours[badge.status] ?? Theme.shadeQuiet
    }

    Text {
        text: badge.words[badge.status] ?? badge.status
        color: Theme.shadeText
        font.pixelSize: Theme.smallText
    }
}
