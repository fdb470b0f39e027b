package crew

import (
	"errors"

	"signalbox/internal/process"
)

// Processes that an agent or a check leaves behind, and that cannot be ended, may change a working
// copy at any time. So the session fails, whatever was said in it; its work stays locked on this
// machine; and its programs stay in the register, so that another crew tries to end them, too.

// leftBy returns the processes that are left according to an error, nil if there are none.
func leftBy(err error) (left *process.LeftError) {
	errors.As(err, &left)
	return left
}

// afterLeft calls f: at once, or in the background after the processes have ended that are left
// according to an error.
func afterLeft(err error, f func()) {
	left := leftBy(err)
	if left == nil {
		f()
		return
	}
	go func() {
		<-left.Gone
		f()
	}()
}

// unregister removes a program that has ended from the register. err is that of its Exit.
func (c *Crew) unregister(session string, err error) {
	afterLeft(err, func() { c.owner.Remove(session) })
}

// start starts a program.
func (c *Crew) start(spec process.Spec, started func(process.ID) error) (program, error) {
	if c.opts.start != nil {
		return c.opts.start(spec, started)
	}
	running, err := process.Start(spec, started)
	if err != nil {
		return nil, err
	}
	return running, nil
}
