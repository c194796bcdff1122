import QtQuick
import Lanekit

// What has just happened: where a file went, or why it did not.
Rectangle {
    id: notice

    required property string text
    required property bool bad
    required property real room

    width: Math.min(room, content.implicitWidth + 2 * Theme.gap)
    height: content.height + 2 * Theme.gap
    radius: Theme.radius
    color: Theme.shade
    border.width: 1
    border.color: notice.bad ? Theme.shadeBad : Theme.shadeGood
    visible: notice.text !== ""

    Text {
        id: content

        objectName: "noticeText"
        x: Theme.gap
        y: Theme.gap
        width: notice.room - 2 * Theme.gap
        text: notice.text
        textFormat: Text.PlainText
        wrapMode: Text.WrapAnywhere
        color: Theme.shadeText
        font.pixelSize: Theme.smallText
    }
}
