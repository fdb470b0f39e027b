package crew

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/forge"
	"signalbox/internal/run/workspace"
)

// Work that is not merged here is delivered in steps that can all be repeated, so that another crew can continue after a kill at any moment:
//
//  1. The commit to deliver is the one that was checked, reviewed and audited, or one that is made of it, which is the same each time.
//  2. It is pushed. What is there already is not pushed again.
//  3. A pull request is opened. The open one of the same branch is used again.
//  4. The delivery is recorded in the ledger.
//
// requests.go says what happens with pull requests then.

// findRemote finds the remote repository and the program for pull requests, if the configuration or an open request needs them.
func (c *Crew) findRemote() error {
	repo, d := c.project.Repo, c.box.Config.Deliver
	open := len(c.openRequests()) > 0
	if repo == nil || !d.Pushes() && !open {
		return nil
	}
	err := error(nil)
	if c.remote, err = repo.Remote(d.RemoteName()); err == nil && (d.As == config.DeliverRequest || open) {
		c.forge = c.opts.forge
		if c.forge == nil {
			c.forge, err = newForge(d, c.remote)
		}
	}
	if err != nil && !d.Pushes() { // the configuration has changed since a request was opened
		c.log.Warn("cannot look at open pull requests", "error", workspace.Explain(err))
		return nil
	}
	return err
}

// CheckDelivery returns an error if work could not be delivered as the configuration says: the repository in a folder has no such remote, or the
// program that opens pull requests there is not known or not installed. It starts nothing.
func CheckDelivery(ctx context.Context, c *config.Config, root string) error {
	if !c.Deliver.Pushes() {
		return nil
	}
	project, err := LocateProject(ctx, c, root)
	if err != nil || project.Repo == nil {
		return err
	}
	remote, err := project.Repo.Remote(c.Deliver.RemoteName())
	if err == nil && c.Deliver.As == config.DeliverRequest {
		_, err = newForge(c.Deliver, remote)
	}
	return err
}

// newForge returns what opens pull requests in a remote repository. The program must be installed: it is needed only after agents have worked.
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
		return nil, &signalbox.Error{Code: signalbox.CodeNotFound, Err: fmt.Errorf("the program %s, which opens pull requests, was not found", program),
			Hint: "install it, or set deliver.forge or deliver.command to another one"}
	}
	return f, nil
}

// deliver delivers finished work in another way than merging it.
func (s *session) deliver(ctx context.Context, how string) error {
	repo, w := s.crew.project.Repo, s.workItem()
	t := w.Task
	if err := s.crew.exchange.Obtain(ctx, s.work, t.Commit, t.Base); err != nil {
		return err
	}
	if changed, err := repo.Changed(ctx, t.Base, t.Commit); err != nil {
		return err
	} else if len(changed) == 0 {
		if _, err := s.submit(rules.ReportMerge{Session: s.id, Epoch: s.epoch, Unchanged: true}); err != nil {
			return asLeaseLost(err)
		}
		s.removeCompleted(ctx)
		return nil
	}
	refusal, err := s.outdated(ctx, t)
	if err == nil && refusal == "" {
		refusal, err = s.mergedMeanwhile(ctx, t)
	}
	if err != nil {
		return err
	} else if refusal != "" {
		_, err := s.submit(rules.ReportMerge{Session: s.id, Epoch: s.epoch, Refusal: refusal})
		return asLeaseLost(err)
	}
	s.restoreBranch(ctx, t.Commit, savedCommit(t)...)
	message, err := s.commitText(ctx, w)
	if err != nil {
		return err
	}
	d := rules.Delivery{Tip: t.Commit, Branch: workspace.Branch(w.ID)}
	if d.Commit, err = repo.DeliveryCommit(ctx, workspace.Delivery{Task: w.ID, Commit: t.Commit, Base: t.Base, Squash: s.crew.box.Config.Deliver.Squash, Message: message}); err != nil {
		return err
	}
	if err := s.crew.exchange.Publish(ctx, s.work, d.Commit); err != nil {
		return err
	}
	if how != rules.DeliverBranch {
		if err := s.push(ctx, t, &d); err != nil {
			return err
		}
	}
	if how == rules.DeliverRequest {
		if err := s.openRequest(ctx, message, &d); err != nil {
			return err
		}
	}
	if _, err := s.submit(rules.ReportDelivery{Session: s.id, Epoch: s.epoch, Delivery: d}); err != nil {
		return asLeaseLost(err)
	}
	if !s.crew.exchange.HasLatest(s.workItem(), s.epoch) && how == rules.DeliverBranch { // the branch is where its author worked, and must be here too
		if err := repo.AddBranch(context.WithoutCancel(ctx), s.work, d.Commit); err != nil {
			s.crew.log.Warn("cannot create the branch of delivered work", "work", s.work, "error", workspace.Explain(err))
		}
	}
	s.removeCompleted(ctx)
	return nil
}

// outdated returns why work must go back before it is delivered, "" if it need not: what it builds on has changed since the checks.
func (s *session) outdated(ctx context.Context, t *rules.Task) (string, error) {
	for _, below := range s.crew.stackedOn(s.work) {
		if err := s.crew.exchange.Obtain(ctx, workOf(below), below.Commit); err != nil {
			return "", err
		}
		if current, err := s.crew.project.Repo.Contains(ctx, t.Commit, below.Commit); err != nil {
			return "", err
		} else if !current {
			return fmt.Sprintf("it builds on an earlier version of %s, which has changed since the checks; %.12s is merged into the branch now", below.Branch, below.Commit), nil
		}
	}
	return "", nil
}

// mergedMeanwhile returns why work must go back before it is delivered again, "" if it need not: its pull request was merged while it was being
// changed. Only what is left may become another one, so the base comes first.
func (s *session) mergedMeanwhile(ctx context.Context, t *rules.Task) (string, error) {
	c, d := s.crew, t.Delivered
	if d == nil || d.Request == "" || c.forge == nil {
		return "", nil
	}
	status, err := c.forge.Look(ctx, d.Request)
	if err != nil || status.State != forge.Merged {
		return "", err
	}
	base, err := c.follower.Update(ctx, c.remote, s.work, status.Merged)
	if err != nil {
		return "", fmt.Errorf("%s was merged, but the branch %s cannot be updated: %w", d.Request, c.branch, err)
	}
	if current, err := c.project.Repo.Contains(ctx, t.Commit, base); current || err != nil {
		return "", err
	}
	return fmt.Sprintf("its pull request %s was merged before these changes; %.12s of %s is merged into the branch now, so that only what is left is delivered", d.Request, base, c.branch), nil
}

// savedCommit returns what the branch of a task may be at before the base was merged into it for the checks.
func savedCommit(t *rules.Task) []string {
	if t.Saved == nil {
		return nil
	}
	return []string{t.Saved.Commit}
}

func (s *session) push(ctx context.Context, t *rules.Task, d *rules.Delivery) error {
	c := s.crew
	if c.remote == "" { // another process has configured it since
		return &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("this process does not know where to push %s", d.Branch), Hint: "stop it and start it again"}
	}
	p := workspace.Push{Task: s.work, Remote: c.remote, Commit: d.Commit}
	if t.Delivered != nil {
		p.Last = t.Delivered.Commit
	}
	d.Remote = c.box.Config.Deliver.RemoteName()
	return c.project.Repo.Push(ctx, p)
}

func (s *session) openRequest(ctx context.Context, message string, d *rules.Delivery) (err error) {
	c := s.crew
	if c.forge == nil {
		return &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("this process does not know how to open a pull request for %s", d.Branch), Hint: "stop it and start it again"}
	}
	title, body, _ := strings.Cut(message, "\n\n")
	for _, below := range c.stackedOn(s.work) {
		if below.Request != "" {
			body += "\n\nBuilds on " + below.Request
		}
	}
	body = strings.TrimSpace(body + "\n\nTask " + s.work + ", checked, reviewed and audited at " + d.Tip)
	d.Request, err = c.forge.Open(ctx, forge.Request{Remote: c.remote, Head: d.Branch, Base: c.branch, Title: title, Body: body})
	return err
}

// commitText returns what a commit of finished work says: what the task is, and what its developer reported.
func (s *session) commitText(ctx context.Context, w *rules.Work) (string, error) {
	claim, err := s.crew.blob(ctx, w.Task.Claimed)
	if err != nil {
		return "", err
	}
	return workspace.CommitText(mergeMessage(w), body(storedBody(claim)).first("Summary", "text")), nil
}

// saveMessage returns what the commit says that a turn of an author ends with.
func (s *session) saveMessage(t *turn) string {
	if t.signal.Name != signalbox.NameReadyForReview {
		return fmt.Sprintf("%s: %s", s.work, s.role)
	}
	return workspace.CommitMessage(s.work, mergeMessage(s.workItem()), body(decoded(t.signal.Body)).first("Summary", "text"))
}

// stackedOn returns the deliveries that are not merged, of the tasks that a task depends on.
func (c *Crew) stackedOn(work string) (found []rules.Delivery) {
	c.box.Engine.View(func(s *rules.State) {
		seen := map[string]bool{work: true}
		var walk func(id string)
		walk = func(id string) {
			w, known := s.Work(id)
			if !known || w.Task == nil {
				return
			}
			for _, blocker := range slices.Concat(w.Task.Blockers, w.Task.Waits) {
				if seen[blocker] {
					continue
				}
				seen[blocker] = true
				walk(blocker)
				b, known := s.Work(blocker)
				if known && b.Task != nil && b.Task.Delivered != nil && b.Task.Cancelled == "" && !(b.Phase == signalbox.PhaseCompleted && b.Task.Delivered.Request != "") {
					found = append(found, b.Task.Delivered.Delivery)
				}
			}
		}
		walk(work)
	})
	return found
}

// workOf returns the task whose work was delivered.
func workOf(d rules.Delivery) string { return strings.TrimPrefix(d.Branch, workspace.Branch("")) }

// startOf returns what the work of a task starts from and is compared with: a commit of the base branch, with the work of the tasks that it
// depends on, if that was delivered and is not merged.
func (c *Crew) startOf(ctx context.Context, work, base string) (string, error) {
	var commits []string
	for _, d := range c.stackedOn(work) {
		if err := c.exchange.Obtain(ctx, workOf(d), d.Commit); err != nil {
			return "", err
		}
		commits = append(commits, d.Commit)
	}
	if base != "" {
		if err := c.exchange.Obtain(ctx, "", base); err != nil {
			return "", err
		}
	}
	if base == "" || commits == nil {
		return base, nil
	}
	start, err := c.project.Repo.Stack(ctx, base, commits)
	if err != nil {
		return "", fmt.Errorf("combine what the tasks delivered that %s depends on: %v", work, err) // a conflict is not one that its author can resolve
	}
	return start, nil
}

// removeCompleted removes the worktree of the session's work if it is completed.
func (s *session) removeCompleted(ctx context.Context) {
	if s.workItem().Phase == signalbox.PhaseCompleted {
		s.crew.removeWorktree(context.WithoutCancel(ctx), s.work)
	}
}
