pragma Singleton
import QtQuick

// Every colour and size of the QML scenes. `dark` follows the window's theme.
QtObject {
    property bool dark: true

    readonly property color background: dark ? "#14161a" : "#f4f5f7"
    readonly property color surface: dark ? "#1e2126" : "#ffffff"
    readonly property color outline: dark ? "#343a42" : "#d3d7dd"
    readonly property color text: dark ? "#e8eaed" : "#1c1f23"
    readonly property color quietText: dark ? "#9aa3ad" : "#5c6570"
    readonly property color accent: dark ? "#4fb3ff" : "#0b6bcb"
    readonly property color good: dark ? "#4cc38a" : "#1a7f4b"
    readonly property color waiting: dark ? "#f0b64f" : "#a86500"
    readonly property color bad: dark ? "#ff6b68" : "#c62828"
    readonly property color shade: "#b0101216"
    readonly property color shadeText: "#f2f4f6"

    readonly property int gap: 8
    readonly property int radius: 6
    readonly property int smallText: 12
    readonly property int normalText: 13
    readonly property int largeText: 20
}
