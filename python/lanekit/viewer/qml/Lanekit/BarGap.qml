import QtQuick
import Lanekit

// A thin line between two groups of buttons.
Item {
    width: 2 * Theme.gap + 1
    height: Theme.buttonSize

    Rectangle {
        anchors.centerIn: parent
        width: 1
        height: parent.height - Theme.gap
        color: Theme.outline
    }
}
