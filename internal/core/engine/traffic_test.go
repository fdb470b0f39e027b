package engine

import (
	"fmt"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
)

// traffic makes commands, many of them colliding. It knows the leases that its own claims got.
type traffic struct {
	name   string
	pick   func(n int) int
	leases []signalbox.Lease
	works  []string
}

func (r *traffic) next() rules.Command {
	work := fmt.Sprintf("w%d", r.pick(6))
	session := fmt.Sprintf("%s.%d", r.name, r.pick(2))
	switch n := r.pick(20); {
	case n < 2:
		return openWork(work)
	case n < 7:
		return claim(work, session, time.Second)
	case n < 9:
		return claim("", session, time.Minute)
	case n < 11:
		return rules.Expire{}
	case n < 12:
		return exit(session)
	}
	if len(r.leases) == 0 {
		return rules.RedactBlob{Blob: signalbox.Hash{byte(r.pick(3))}, Reason: "private",
			Actor: "me"}
	}
	i := r.pick(len(r.leases))
	if r.pick(2) == 0 {
		return rules.Renew{Work: r.works[i], Session: r.leases[i].Session, Epoch: r.leases[i].Epoch,
			TTL: time.Minute}
	}
	return rules.Release{Work: r.works[i], Session: r.leases[i].Session, Epoch: r.leases[i].Epoch}
}

func (r *traffic) heard(a rules.Answer, err error) {
	if err == nil && a.Lease != nil {
		r.leases, r.works = append(r.leases, *a.Lease), append(r.works, a.Work)
	}
}
