import QtQuick
import Lanekit

// What stands where a picture will be.
Column {
    id: state

    required property string title
    required property string detail
    required property string runId
    required property bool compact

    spacing: Theme.gap
    visible: state.title !== ""

    Text {
        objectName: "hint"
        width: parent.width
        horizontalAlignment: Text.AlignHCenter
        wrapMode: Text.Wrap
        text: state.title
        color: Theme.text
        font.pixelSize: state.compact ? Theme.normalText : Theme.largeText
    }

    Text {
        width: parent.width
        visible: !state.compact
        horizontalAlignment: Text.AlignHCenter
        elide: Text.ElideMiddle
        text: state.runId
        textFormat: Text.PlainText
        color: Theme.accent
        font.pixelSize: Theme.normalText
        font.family: Theme.monospace
    }

    Text {
        objectName: "hintDetail"
        width: parent.width
        visible: !state.compact
        horizontalAlignment: Text.AlignHCenter
        wrapMode: Text.Wrap
        text: state.detail
        textFormat: Text.PlainText
        color: Theme.quietText
        font.pixelSize: Theme.normalText
    }
}
