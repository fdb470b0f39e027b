package main

import (
	"slices"
	"testing"

	"signalbox"
)

func TestScannerFindsPlantedSignals(t *testing.T) {
	for _, format := range append(slices.Clone(jsonFormats), signalbox.FormatPlain) {
		g := newGenerator(seed, testSize, often)
		if _, signals, err := scan(newStream(g, format), format, &g.planted); err != nil ||
			signals == 0 {
			t.Errorf("%s: %d signals, error %v", format, signals, err)
		}
	}
}

func TestResidentInputs(t *testing.T) {
	for _, c := range residentCases {
		report, err := c.measure(megabyte)
		if err != nil {
			t.Errorf("%s: %v", c.title, err)
		}
		if report.Bytes < megabyte {
			t.Errorf("%s: %d bytes, want a megabyte", c.title, report.Bytes)
		}
	}
}

func TestCheckerFindsDifferences(t *testing.T) {
	want := []planted{
		{dialect: signalbox.DialectLine, name: signalbox.NameCheckpoint, task: "t1"},
		{dialect: signalbox.DialectTurn, name: signalbox.NameStuck},
	}
	checkpoint := signalbox.Signal{Dialect: signalbox.DialectLine, Name: signalbox.NameCheckpoint,
		TaskID: "t1",
		Body:   map[string]any{"Summary": "done"}}
	stuck := signalbox.Signal{Dialect: signalbox.DialectTurn, Name: signalbox.NameStuck,
		Refused: signalbox.ReasonSuperseded}
	nearMiss := signalbox.Signal{Dialect: signalbox.DialectLine, Name: signalbox.NameCheckpoint,
		Refused: signalbox.ReasonNearMiss}
	otherTask, noBody := checkpoint, checkpoint
	otherTask.TaskID = "t2"
	noBody.Body = nil
	for _, tc := range []struct {
		name  string
		found []signalbox.Signal
		ok    bool
	}{
		{"all", []signalbox.Signal{checkpoint, nearMiss, stuck}, true},
		{"one lost", []signalbox.Signal{checkpoint}, false},
		{"one more", []signalbox.Signal{checkpoint, stuck, checkpoint}, false},
		{"wrong order", []signalbox.Signal{stuck, checkpoint}, false},
		{"wrong task", []signalbox.Signal{otherTask, stuck}, false},
		{"no body", []signalbox.Signal{noBody, stuck}, false},
	} {
		c := checker{want: want}
		c.add(tc.found)
		if err := c.result(); (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, tc := range []struct {
		samples []float64
		want    float64
	}{
		{[]float64{7}, 7},
		{[]float64{9, 1, 4}, 4},
		{[]float64{4, 1, 2, 100}, 3},
	} {
		if got := median(tc.samples); got != tc.want {
			t.Errorf("median(%v) = %v, want %v", tc.samples, got, tc.want)
		}
	}
}
