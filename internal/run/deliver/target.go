// Package deliver knows where finished work goes that is not merged here, and what becomes of it:
// it pushes branches, opens pull requests, and reports what people do with them. Work that depends
// on such work builds on it: see Stack.
//
// Each step can be repeated, so that another crew can continue after a kill at any moment.
package deliver

import (
	"context"
	"os/exec"
	"strings"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/forge"
	"signalbox/internal/run/project"
	"signalbox/internal/run/workspace"
)

// Target is where finished work is pushed to, and what opens pull requests there.
type Target struct {
	repo   *workspace.Repo
	name   string      // of the remote repository, as the configuration has it
	remote string      // the address that branches are pushed to; "" if none are
	forge  forge.Forge // opens pull requests; nil if there are none
}

// Options are what a target is needed for.
type Options struct {
	// Open means that pull requests are open, which the configuration may not need any more.
	Open bool
	// Forge opens pull requests; nil means the one that the configuration names.
	Forge forge.Forge
}

// Find finds the remote repository and the program for pull requests, if the configuration or an
// open request needs them. It starts nothing. With an error it returns what it found.
func Find(repo *workspace.Repo, d config.Deliver, opts Options) (t Target, err error) {
	t.repo, t.name = repo, d.RemoteName()
	if repo == nil || !d.Pushes() && !opts.Open {
		return t, nil
	}
	t.remote, err = repo.Remote(t.name)
	if err == nil && (d.As == config.DeliverRequest || opts.Open) {
		t.forge = opts.Forge
		if t.forge == nil {
			t.forge, err = newForge(d, t.remote)
		}
	}
	return t, err
}

// newForge returns what opens pull requests in a remote repository. The program must be installed:
// it is needed only after agents have worked.
func newForge(d config.Deliver, remote string) (forge.Forge, error) {
	kind := d.Forge
	if kind == "" && len(d.Command) > 0 {
		kind = forge.Command
	}
	if kind == "" {
		var err error
		if kind, err = forge.KindOf(remote); err != nil {
			return nil, err
		}
	}
	f, err := forge.New(kind, forge.Options{Remote: remote, Command: d.Command})
	if err != nil {
		return nil, err
	}
	program := kind
	if kind == forge.Command {
		program = d.Command[0]
	}
	if _, err := exec.LookPath(program); err != nil {
		return nil, signalbox.CodeNotFound.Errorf(
			"install it, or set deliver.forge or deliver.command to another one",
			"the program %s, which opens pull requests, was not found", program)
	}
	return f, nil
}

// Push pushes the commit of a delivery. last is what was delivered before; nil if nothing was.
func (t *Target) Push(
	ctx context.Context, work string, last *rules.DeliveredTask, d *rules.Delivery,
) error {
	if t.remote == "" { // another process has configured it since
		return signalbox.CodeUsage.Errorf("stop it and start it again",
			"this process does not know where to push %s", d.Branch)
	}
	p := workspace.Push{Task: work, Remote: t.remote, Commit: d.Commit}
	if last != nil {
		p.Last = last.Commit
	}
	d.Remote = t.name
	return t.repo.Push(ctx, p)
}

// Description is what a pull request says about the work of a task.
type Description struct {
	Work string
	// The first paragraph of Message is the title.
	Message string
	// Passed is what the work has passed.
	Passed string
	// Issue is the address of the issue that the work resolves, "" if there is none.
	Issue string
	// Below are the deliveries that it builds on.
	Below []rules.Delivery
}

// Open opens a pull request for a delivery that was pushed, or uses the open one of its branch.
func (t *Target) Open(ctx context.Context, about Description, d *rules.Delivery) (err error) {
	if t.forge == nil {
		return signalbox.CodeUsage.Errorf("stop it and start it again",
			"this process does not know how to open a pull request for %s",
			d.Branch)
	}
	title, body, _ := strings.Cut(about.Message, "\n\n")
	if line := forge.IssueLine(t.remote, about.Issue); line != "" {
		body += "\n\n" + line
	}
	for _, b := range about.Below {
		if b.Request != "" {
			body += "\n\nBuilds on " + b.Request
		}
	}
	body += "\n\nTask " + about.Work + ", " + about.Passed + " at " + d.Tip
	d.Request, err = t.forge.Open(ctx, forge.Request{Remote: t.remote, Head: d.Branch,
		Base: t.repo.Base, Title: title, Body: strings.TrimSpace(body)})
	return err
}

// Check returns an error if work could not be delivered as the configuration says: the repository
// in a folder has no such remote, or the program that opens pull requests there is not known or not
// installed. It starts nothing.
func Check(ctx context.Context, c *config.Config, root string) error {
	if !c.Deliver.Pushes() {
		return nil
	}
	in, err := project.Locate(ctx, c, root)
	if err != nil || in.Repo == nil {
		return err
	}
	_, err = Find(in.Repo, c.Deliver, Options{})
	return err
}
