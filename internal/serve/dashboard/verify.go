package dashboard

import (
	"context"
	"net/http"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/serve/access"
)

// verification is the last verification of the ledger that somebody started. Only one runs at a
// time.
type verification struct {
	started chan struct{} // has an element if one was started that Run has not seen yet
	mu      sync.Mutex
	page    verificationPage
}

// verificationPage shows a verification. The zero value means that there was none since the server
// was started.
type verificationPage struct {
	Running bool
	// Done and Total are numbers of events, while it is running.
	Done, Total uint64
	// Began is when it began, and Took how many seconds it took.
	Began time.Time
	Took  float64
	// Report is the result, nil if there is none.
	Report *box.Verified
	// Key is the public key of the box.
	Key string
	// Problem is why there is no result.
	Problem *problem
}

func newVerification() *verification { return &verification{started: make(chan struct{}, 1)} }

// Run carries out the verifications that users start, until ctx is done.
func (d *Dashboard) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.verification.started:
			result := d.verifyLedger(ctx)
			d.verification.change(func(p *verificationPage) { *p = result })
		}
	}
}

func (v *verification) change(f func(*verificationPage)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f(&v.page)
}

// verifyLedger verifies the ledger, as signalbox ledger verify does.
func (d *Dashboard) verifyLedger(ctx context.Context) verificationPage {
	began := d.opts.Now()
	progress := func(done, total uint64) {
		d.verification.change(func(p *verificationPage) { p.Done, p.Total = done, total })
	}
	key, err := d.box.PublicKey()
	var report box.Verified
	if err == nil {
		report, err = d.box.Verify(ctx, box.VerifyOptions{Progress: progress})
	}
	result := verificationPage{Began: began, Took: d.opts.Now().Sub(began).Seconds(), Key: key}
	if err != nil {
		result.Problem = &problem{err.Error(), signalbox.HintOf(err)}
		return result
	}
	result.Report = &report
	return result
}

// verify starts a verification, unless one is running.
func (d *Dashboard) verify(*http.Request, access.Caller) error {
	d.verification.change(func(p *verificationPage) {
		if !p.Running {
			*p = verificationPage{Running: true, Total: d.box.Engine.Tail().Seq}
			d.verification.started <- struct{}{} // there is room, because none is running
		}
	})
	return nil
}

// verified shows the verification that was started last.
func (d *Dashboard) verified(context.Context, *http.Request) (v view, err error) {
	d.verification.change(
		func(p *verificationPage) { v = view{template: "verification", title: "Verification", data: *p} })
	return v, nil
}

// checkProof shows the page that checks a proof in the browser. It has nothing of the box, so that
// it can be saved and handed on.
func (d *Dashboard) checkProof(context.Context, *http.Request) (view, error) {
	return view{template: "verify", title: "Check a proof"}, nil
}
