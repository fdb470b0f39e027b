// Package browser tests the dashboard of signalbox serve in Chromium: the real program serves a box
// in which scripted agents have worked, and the tests read its pages, click, type, and look at
// colours and sizes.
//
// go test ./test/browser -run Screenshots -update writes the pictures in docs/pictures/dashboard.
package browser
