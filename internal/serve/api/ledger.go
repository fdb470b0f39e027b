package api

import (
	"errors"
	"io"
	"net/http"
	"strconv"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/journal"
	"signalbox/internal/serve/access"
	"signalbox/internal/serve/transfer"
	"signalbox/ledger"
)

type proofInput struct {
	Seq uint64 `path:"seq" json:"-" jsonschema:"the sequence number of the event"`
}

type blobInput struct {
	Digest string `path:"digest" json:"-" jsonschema:"the SHA-256 of the blob, in hexadecimal digits"`
}

// verified is the result of verifying the ledger.
type verified struct {
	OK       bool    `json:"ok"`
	Events   uint64  `json:"events"`
	Head     string  `json:"head"`
	FirstBad *uint64 `json:"first_bad"`
	Reason   *string `json:"reason"`
	// Signed is how many events the checkpoint covers.
	Signed uint64 `json:"signed"`
}

func verifiedFrom(r box.Verified) verified {
	v := verified{OK: r.OK, Events: r.Events, Head: r.Head.String()}
	if r.FirstBad != 0 {
		v.FirstBad = &r.FirstBad
	}
	if !r.OK {
		v.Reason = &r.Reason
	}
	if r.Checkpoint != nil {
		v.Signed = r.Checkpoint.Size
	}
	return v
}

// key is the public key of the box.
type key struct {
	Key string `json:"key"`
}

func (a *API) addLedger() {
	const group = "ledger"
	add(a, operation{method: http.MethodGet, path: "/ledger/verify", name: "verifyLedger",
		group: group, scope: access.Private, heavy: true,
		summary: "Verifies the hash chain, replays the events, and compares them with the last checkpoint."},
		func(c call, _ none) (verified, error) {
			report, err := a.box.Verify(c.ctx, box.VerifyOptions{})
			if errors.Is(err, journal.ErrDamaged) {
				report, err = box.Verified{Report: ledger.Report{FirstBad: 1, Reason: err.Error()}},
					nil
			}
			return verifiedFrom(report), err
		})
	add(a, operation{method: http.MethodGet, path: "/ledger/key", name: "getKey", group: group,
		scope:   access.Read,
		summary: "Returns the public key of the box. To trust a proof, get the key from another source."},
		func(call, none) (key, error) {
			public, err := a.box.PublicKey()
			return key{public}, err
		})
	addRaw(a, operation{method: http.MethodGet, path: "/ledger/events/{seq}/proof",
		name: "proveEvent", group: group, scope: access.Read, heavy: true, media: mediaText,
		summary: "Returns a proof that an event is in the ledger: the event, its Merkle proof and a signed checkpoint."},
		func(c call, in proofInput, w http.ResponseWriter, _ *http.Request) error {
			proof, err := a.box.Prove(c.ctx, in.Seq)
			if err != nil {
				return err
			}
			w.Header().Set("Content-Type", mediaText)
			transfer.NewWriter(w).Write(proof.Format())
			return nil
		})
	addRaw(a, operation{method: http.MethodGet, path: "/blobs/{digest}", name: "getBlob",
		group: group, scope: access.Read, heavy: true, media: mediaBytes,
		summary: "Returns the bytes of a blob, such as a transcript."},
		func(c call, in blobInput, w http.ResponseWriter, r *http.Request) error {
			var digest signalbox.Hash
			if err := digest.UnmarshalText([]byte(in.Digest)); err != nil {
				return usage("invalid digest: %w", err)
			}
			// What agents wrote must never be taken for a page.
			setHeaders := func() {
				w.Header().Set("Content-Type", mediaBytes)
				w.Header().Set("Content-Disposition", "attachment")
			}
			if r.Method == http.MethodHead { // without reading all of it to verify it
				blob, err := a.box.OpenBlob(c.ctx, digest)
				if err != nil {
					return err
				}
				setHeaders()
				w.Header().Set("Content-Length", strconv.FormatInt(blob.Size(), 10))
				return blob.Close()
			}
			blob, err := a.box.Blob(c.ctx, digest)
			if err != nil {
				return err
			}
			defer blob.Close()
			setHeaders()
			// an error is that of a client that has left, or too late to report
			io.Copy(transfer.NewWriter(w), blob)
			return nil
		})
}

const (
	mediaText   = "text/plain; charset=utf-8"
	mediaBytes  = "application/octet-stream"
	mediaStream = "text/event-stream"
)
