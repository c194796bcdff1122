pragma Singleton
import QtQuick

// Outlines of the buttons' pictures, drawn on a field of 20 by 20.
QtObject {
    readonly property string pause: "M6 4.5 H8 V15.5 H6 Z M12 4.5 H14 V15.5 H12 Z"
    readonly property string play: "M6 4 L16 10 L6 16 Z"
    readonly property string hud: "M3 5 H17 M3 10 H12 M3 15 H14"
    readonly property string fit: "M3 7 V3 H7 M13 3 H17 V7 M17 13 V17 H13 M7 17 H3 V13"
    readonly property string zoomIn: "M12.5 12.5 L17 17 M14 8.5 A5.5 5.5 0 1 1 3 8.5 A5.5 5.5 0 1 1 14 8.5 M8.5 6 V11 M6 8.5 H11"
    readonly property string zoomOut: "M12.5 12.5 L17 17 M14 8.5 A5.5 5.5 0 1 1 3 8.5 A5.5 5.5 0 1 1 14 8.5 M6 8.5 H11"
    readonly property string screenshot: "M3 6 H6.5 L8 4 H12 L13.5 6 H17 V16 H3 Z M13 11 A3 3 0 1 1 7 11 A3 3 0 1 1 13 11"
    readonly property string record: "M15 10 A5 5 0 1 1 5 10 A5 5 0 1 1 15 10"
    readonly property string film: "M3 4 H17 V16 H3 Z M6.5 4 V16 M13.5 4 V16 M3 8 H6.5 M3 12 H6.5 M13.5 8 H17 M13.5 12 H17"
    readonly property string stop: "M5.5 5.5 H14.5 V14.5 H5.5 Z"
    readonly property string fullScreen: "M11.5 3 H17 V8.5 M17 3 L11.5 8.5 M8.5 17 H3 V11.5 M3 17 L8.5 11.5"
    readonly property string help: "M7 7.5 A3 3 0 1 1 10.5 10.4 Q10 10.8 10 12.2 M10 15.2 V15.7"
}
