pragma Singleton
import QtQuick

// Every colour and size of the QML scenes.
QtObject {
    // Set from Python, lanekit.viewer.palette, before a scene is loaded and when the theme changes.
    property bool dark: true
    property color background
    property color surface
    property color raised
    property color outline
    property color text
    property color quietText
    property color accent
    property color good
    property color waiting
    property color bad

    // Over a picture, which may have any colour: dark in both themes.
    readonly property color shade: "#cc101216"
    readonly property color shadeText: "#f2f4f6"
    readonly property color shadeQuiet: "#9aa3ad"
    readonly property color shadeGood: "#4cc38a"
    readonly property color shadeWaiting: "#f0b64f"
    readonly property color shadeBad: "#ff7b78"

    readonly property int gap: 8
    readonly property int radius: 6
    readonly property int smallText: 12
    readonly property int normalText: 13
    readonly property int largeText: 20
    readonly property int buttonSize: 32
    readonly property int barHeight: 42
    readonly property string monospace: "monospace"
}
