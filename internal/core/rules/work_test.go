package rules

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
)

func TestOpenBox(t *testing.T) {
	b := &box{t: t, s: &State{}, now: t0}
	d := b.try(OpenBox{Box: "box-1", Actor: "op"})
	wantEvents(t, d, `BoxOpened {"box":"box-1","rules":3}`)
	wantAnswer(t, Answer{At: t0, Seq: 1}, d.Answer)
	if b.s.Box() != "box-1" || b.s.Seq() != 1 || !b.s.Time().Equal(t0) {
		t.Errorf("box %q, event %d, %s", b.s.Box(), b.s.Seq(), b.s.Time())
	}
	wantRefused(t, b.try(OpenBox{Box: "box-2", Actor: "op"}),
		refused{Code: signalbox.CodeConflict, Msg: "the box is already open as 'box-1'"})
}

func TestNothingBeforeTheBoxIsOpen(t *testing.T) {
	for _, c := range []Command{
		OpenWork{Work: "w", Actor: "op"}, Claim{Role: "developer", Session: "S", Actor: "A",
			Lease: "L"}, Renew{}, Release{}, Exit{},
		Unblock{}, Expire{}, RedactBlob{},
	} {
		wantRefused(t, Decide(&State{}, t0, c),
			refused{Code: signalbox.CodeFailed, Msg: "the log is empty: the box was never opened"})
	}
}

func TestOpenWork(t *testing.T) {
	for _, phase := range append(signalbox.Phases(), "", "SHIPPED", "draft") {
		b := newBox(t)
		d := b.try(OpenWork{Work: "w", Title: "Add <b> & \"c\"", Actor: "op", Phase: phase})
		starts := phase
		if phase == "" {
			starts = signalbox.PhaseImplementation
		}
		if mayClaim[starts] == "" {
			wantRefused(t, d, refused{Code: signalbox.CodeUsage,
				Msg: "work cannot start in phase '" + string(phase) + "'"})
			continue
		}
		wantEvents(t, d, `WorkOpened {"title":"Add <b> & \"c\"","phase":"`+string(starts)+`"}`)
		wantAnswer(t, Answer{At: t0, Seq: 2, Work: "w", Phase: starts}, d.Answer)
		if diff := cmp.Diff(&Work{ID: "w", Title: "Add <b> & \"c\"", Phase: starts, Opened: t0},
			b.work("w")); diff != "" {
			t.Errorf("work (-want +got):\n%s", diff)
		}
		wantRefused(t, b.try(OpenWork{Work: "w", Actor: "op"}),
			refused{Code: signalbox.CodeConflict, Msg: "work 'w' already exists, in " +
				string(starts)})
	}
}

func TestUnblockRefusals(t *testing.T) {
	b := newBox(t)
	reach(b, "blocked", signalbox.PhaseBlocked)
	for _, tt := range []struct {
		unblock Unblock
		want    refused
	}{
		{Unblock{Work: "x", Note: "n", Actor: "op"},
			refused{Code: signalbox.CodeNotFound, Msg: "there is no work 'x'"}},
		{Unblock{Work: "blocked", Note: "", Actor: "op"},
			refused{Code: signalbox.CodeUsage, Msg: "the note is empty"}},
		{Unblock{Work: "blocked", Note: "\t\n", Actor: "op"},
			refused{Code: signalbox.CodeUsage, Msg: "the note is empty"}},
		{Unblock{Work: "blocked", Note: "n"},
			refused{Code: signalbox.CodeUsage, Msg: "actor: an id must not be empty"}},
	} {
		wantRefused(t, b.try(tt.unblock), tt.want)
	}
	for _, phase := range inOrder {
		reach(b, "w-"+string(phase), phase)
		wantRefused(t, b.try(Unblock{Work: "w-" + string(phase), Note: "n", Actor: "op"}),
			refused{Code: signalbox.CodeFailed, Msg: "work 'w-" + string(phase) +
				"' is not blocked, it is in " + string(phase)})
	}
}

func TestTextsAreChecked(t *testing.T) {
	for text, fault := range map[string]string{
		strings.Repeat("x", 4097): "4097 bytes, limit 4096",
		"a\xffb":                  "must be UTF-8",
		"a\x00b":                  "must not contain control characters",
		"a\rb":                    "must not contain control characters",
		"a\x1bb":                  "must not contain control characters",
		"a\x7fb":                  "must not contain control characters",
		"a\u0085b":                "must not contain control characters",
	} {
		for what, c := range map[string]Command{
			"title":  OpenWork{Work: "new", Title: text, Actor: "op"},
			"note":   Unblock{Work: "w", Note: text, Actor: "op"},
			"reason": RedactBlob{Reason: text, Actor: "op"},
		} {
			b := newBox(t)
			reach(b, "w", signalbox.PhaseBlocked)
			wantRefused(t, b.try(c), refused{Code: signalbox.CodeUsage, Msg: "invalid " + what +
				": " + fault})
		}
	}
	b := newBox(t)
	for i, text := range []string{"", strings.Repeat("x", 4096), "two\nlines\tand a tab",
		"ä \u2028 € 😀"} {
		work := string(rune('a' + i))
		b.do(OpenWork{Work: work, Title: text, Actor: "op"})
		if got := b.work(work).Title; got != text {
			t.Errorf("title %q came back as %q", text, got)
		}
	}
}

func TestRedact(t *testing.T) {
	b := newBox(t)
	blob := signalbox.Hash{1, 2, 3}
	if _, redacted := b.s.Redaction(blob); redacted {
		t.Error("redacted before it was")
	}
	d := b.try(RedactBlob{Blob: blob, Reason: "a key was in it", Actor: "op"})
	wantEvents(t, d, `BlobRedacted {"blob":"010203`+strings.Repeat("0", 58)+
		`","reason":"a key was in it"}`)
	wantAnswer(t, Answer{At: t0, Seq: 2}, d.Answer)
	want := Redaction{Blob: blob, Reason: "a key was in it", Actor: "op", At: t0, Seq: 2}
	b.now = b.now.Add(time.Hour)
	b.open("w", signalbox.PhaseDraft)
	again := b.try(RedactBlob{Blob: blob, Reason: "again", Actor: "op-2"})
	wantEvents(t, again)
	wantAnswer(t, Answer{At: b.now, Seq: 2, Repeated: true}, again.Answer)
	if got, redacted := b.s.Redaction(blob); !redacted || got != want {
		t.Errorf("redaction %+v, want %+v", got, want)
	}
	b.do(RedactBlob{Blob: signalbox.Hash{9}, Reason: "another", Actor: "op"})
	if got, _ := b.s.Redaction(blob); got != want {
		t.Errorf("after another, redaction %+v", got)
	}
	for _, c := range []RedactBlob{{Blob: blob, Reason: "", Actor: "op"},
		{Blob: blob, Reason: "r"}} {
		if d := b.try(c); refusedBy(d.Err) == nil || refusedBy(d.Err).Code != signalbox.CodeUsage {
			t.Errorf("%+v: %v", c, d.Err)
		}
	}
}

func TestWorksInTheOrderTheyWereOpened(t *testing.T) {
	b := newBox(t)
	ids := []string{"z", "a", "m"}
	for _, id := range ids {
		b.open(id, signalbox.PhaseDraft)
	}
	b.claim("a", "S")
	var got []string
	for w := range b.s.Works() {
		got = append(got, w.ID)
	}
	if diff := cmp.Diff(ids, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}
