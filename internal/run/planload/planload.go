// Package planload puts a plan into a box: its tasks, and the configuration that the rules apply to
// them. A preview does the same in memory.
package planload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/plan"
)

// Options configure Load.
type Options struct {
	Actor string
	// Source, ID and File identify the plan; see Identify.
	Source, ID, File string
	// Shared means that all tasks work in one folder.
	Shared bool
	// Replace and Finished are those of rules.LoadPlan.
	Replace  bool
	Finished rules.FinishedPlan
}

// Identify sets what identifies a plan: its own id, or else the path of its file below the root of
// the project. The id is the preferred one for the box. A plan from standard input, "-", is
// identified by its name. File is the path if a plan with an id of its own has one.
func (o *Options) Identify(p *plan.Plan, file, root string) {
	switch {
	case p.ID != "":
		o.Source, o.ID = "id:"+p.ID, p.ID
		if file != "-" {
			o.File = pathBelow(root, file)
		}
	case file == "-":
		o.Source, o.ID = "stdin:"+p.Name, idFrom(p.Name)
	default:
		base := filepath.Base(file)
		o.Source, o.ID = pathBelow(root, file), idFrom(strings.TrimSuffix(base, filepath.Ext(base)))
	}
}

// pathBelow returns the path of a file below a folder, or the full one if it is somewhere else.
func pathBelow(root, file string) string {
	path := realPath(file)
	if below, err := filepath.Rel(realPath(root), path); err == nil && filepath.IsLocal(below) {
		return filepath.ToSlash(below)
	}
	return path
}

// realPath returns a path without symbolic links, so that a file has one path.
func realPath(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		return real
	}
	return abs
}

// maxPlanID leaves room for the id of a task after it.
const maxPlanID = 24

// idFrom makes an id of a name.
func idFrom(name string) string {
	id := strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_') {
			return r
		}
		return '-'
	}, name)
	id = strings.Trim(id[:min(len(id), maxPlanID)], "-_")
	if id == "" {
		return "plan"
	}
	return id
}

// Load replaces the tasks of a plan in the box, under the box's configuration. It may be called
// again at any time.
func Load(ctx context.Context, b *box.Box, p *plan.Plan, text []byte, o Options) (
	all rules.PlanChange, err error) {
	policy := rules.Configure{Policy: PolicyOf(b.Config, o.Shared), Actor: o.Actor}
	if _, err := b.Engine.Do(ctx, policy); err != nil {
		return all, err
	}
	digest, err := b.Engine.PutBlob(ctx, bytes.NewReader(text))
	if err != nil {
		return all, err
	}
	tasks, err := storeTasks(ctx, b, p)
	if err != nil {
		return all, err
	}
	for !all.Loaded {
		answer, err := b.Engine.Do(ctx, rules.LoadPlan{Plan: digest, Name: p.Name, Tasks: tasks,
			Actor: o.Actor, Source: o.Source, File: o.File, ID: o.ID, Replace: o.Replace, Finished: o.Finished})
		if err != nil {
			return all, err
		}
		part := answer.Plan
		all.Loaded, all.Stale, all.ID = part.Loaded, part.Stale, part.ID
		all.New = all.New || part.New
		all.Added = append(all.Added, part.Added...)
		all.Changed = append(all.Changed, part.Changed...)
		all.Removed = append(all.Removed, part.Removed...)
		o.Replace = true // the first part was accepted
	}
	return all, nil
}

// Continue gives the box the configuration for a run that continues what it has, and returns the
// name of its plan.
func Continue(ctx context.Context, b *box.Box, actor string, shared bool) (name string, err error) {
	planned, loaded := false, false
	b.Engine.View(func(s *rules.State) {
		var digest signalbox.Hash
		digest, name, loaded = s.Plan()
		planned = digest != signalbox.Hash{}
	})
	switch {
	case !planned:
		return "", signalbox.CodeNotFound.Errorf(
			"add a task with signalbox add TEXT, or name the file of a plan: signalbox run plan.md",
			"there is nothing to run: the box has no plan")
	case !loaded:
		return "", signalbox.CodeConflict.Errorf("run it with its file, which loads the rest",
			"plan '%s' was loaded only in part", name)
	}
	_, err = b.Engine.Do(ctx, rules.Configure{Policy: PolicyOf(b.Config, shared), Actor: actor})
	return name, err
}

// Preview returns a box in memory in which a plan is loaded as a run would load it, and the id of
// the plan. Where a run would ask the user first, because the box has another plan, it assumes that
// the plan replaces that one. The caller closes the box before b.
func Preview(ctx context.Context, b *box.Box, p *plan.Plan, text []byte, o Options) (
	preview *box.Box, id string, err error) {
	if preview, err = b.Fork(ctx); err != nil {
		return nil, "", err
	}
	o.Replace = true
	change, err := Load(ctx, preview, p, text, o)
	if errors.Is(err, rules.ErrPlanFinished) {
		o.Finished = rules.FinishedRenew
		change, err = Load(ctx, preview, p, text, o)
	}
	if err != nil {
		preview.Close()
		return nil, "", err
	}
	return preview, change.ID, nil
}

// storeTasks stores the text of each task.
func storeTasks(ctx context.Context, b *box.Box, p *plan.Plan) (tasks []rules.PlanTask, err error) {
	for _, t := range p.Tasks {
		review := t.Review
		t.Review = "" // it is for signalbox, and no change of what agents are to do
		text, err := json.Marshal(t)
		if err != nil {
			return nil, err
		}
		digest, err := b.Engine.PutBlob(ctx, bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		task := rules.PlanTask{ID: t.ID, Title: t.Title, Priority: t.Priority,
			BlockedBy: t.BlockedBy, Files: t.Files, Draft: t.Draft, Text: digest, Review: review}
		if t.Budget != nil {
			task.Budget = rules.Budget{Tokens: t.Budget.Tokens, CostMicros: t.Budget.CostMicros,
				Time: t.Budget.Time}
		}
		tasks = append(tasks, task)
	}
	return tasks, nil
}
