import QtQuick
import QtQuick.Shapes
import Lanekit

// A button with a drawn picture, and a tooltip that also tells its key.
Rectangle {
    id: button

    required property string icon
    required property string tooltip
    property bool active: false
    property color iconColor: Theme.text
    property bool filled: false

    signal clicked

    width: Theme.buttonSize
    height: Theme.buttonSize
    radius: Theme.radius
    color: tap.pressed ? Theme.outline : hover.hovered || button.active ? Theme.raised : "transparent"

    Accessible.role: Accessible.Button
    Accessible.name: button.tooltip
    Accessible.onPressAction: button.clicked()

    Shape {
        anchors.centerIn: parent
        width: 20
        height: 20

        ShapePath {
            strokeColor: button.iconColor
            strokeWidth: 1.6
            fillColor: button.filled ? button.iconColor : "transparent"
            capStyle: ShapePath.RoundCap
            joinStyle: ShapePath.RoundJoin

            PathSvg {
                path: button.icon
            }
        }
    }

    HoverHandler {
        id: hover
    }

    TapHandler {
        id: tap

        gesturePolicy: TapHandler.ReleaseWithinBounds
        onTapped: button.clicked()
    }

    Rectangle {
        id: bubble

        visible: hover.hovered
        z: 10
        y: -height - 1.5 * Theme.gap
        x: Math.max(-button.mapToItem(null, 0, 0).x + 4, Math.min((button.width - width) / 2, (button.Window.width || 10000) - button.mapToItem(null, 0, 0).x - width - 4))
        width: label.width + 2 * Theme.gap
        height: label.height + Theme.gap
        radius: Theme.radius
        color: Theme.shade

        Text {
            id: label

            anchors.centerIn: parent
            text: button.tooltip
            color: Theme.shadeText
            font.pixelSize: Theme.smallText
        }
    }
}
