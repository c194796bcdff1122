import QtQuick
import Lanekit

// Smaller, larger, and all of it.
Row {
    id: buttons

    required property FastLaneViewModel model

    spacing: 2

    IconButton {
        objectName: "zoomOutButton"
        icon: Icons.zoomOut
        tooltip: buttons.model.tooltips.zoom_out
        onClicked: buttons.model.act("zoom_out")
    }

    IconButton {
        objectName: "zoomInButton"
        icon: Icons.zoomIn
        tooltip: buttons.model.tooltips.zoom_in
        onClicked: buttons.model.act("zoom_in")
    }

    IconButton {
        objectName: "fitButton"
        icon: Icons.fit
        tooltip: buttons.model.tooltips.fit
        onClicked: buttons.model.act("fit")
    }
}
