package rules

import (
	"errors"
	"strings"
	"testing"

	"signalbox"
)

func TestAcceptLoss(t *testing.T) {
	b := newBox(t)
	wantEvents(t, b.try(AcceptLoss{First: 3, Last: 5, Hash: signalbox.Hash{7}, Host: "desk",
		Actor: "op"}),
		`LossAccepted {"first":3,"last":5,"hash":"07`+strings.Repeat("0", 62)+`","host":"desk"}`)
	if blobs, err := Blobs(&b.log[len(b.log)-1]); err != nil || len(blobs) > 0 {
		t.Errorf("it refers to the blobs %v, %v", blobs, err)
	}
	for _, c := range []Command{
		AcceptLoss{First: 0, Last: 5, Actor: "op"}, AcceptLoss{First: 5, Last: 4, Actor: "op"},
		AcceptLoss{First: 1, Last: 1},
		AcceptLoss{First: 1, Last: 1, Host: "a\x1b", Actor: "op"},
	} {
		if d := b.try(c); signalbox.CodeOf(d.Err) != signalbox.CodeUsage || len(d.Events) > 0 {
			t.Errorf("%#v: error %v", c, d.Err)
		}
	}
	for _, body := range []LossAccepted{{First: 0, Last: 1}, {First: 2, Last: 1}} {
		if err := b.s.Apply(b.event("", "", body)); !errors.Is(err, ErrHistory) {
			t.Errorf("%+v: error %v", body, err)
		}
	}
}
