package crew

import (
	"context"
	"encoding/json"

	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
)

// notify sends a question for the human to the configured webhook and command. The question stays open even if that fails.
func (c *Crew) notify(id string) {
	targets := c.box.Config.Notify
	if targets.Webhook == "" && len(targets.Command) == 0 {
		return
	}
	var q *rules.Question
	c.box.Engine.View(func(s *rules.State) { q, _ = s.Question(id) })
	if q == nil {
		return
	}
	fields, output, err := details(context.Background(), c.box, q)
	if err != nil {
		c.log.Warn("cannot read the details of a question", "question", id, "error", err)
	}
	note := map[string]any{"box": c.box.ID(), "question": q.ID, "kind": q.Kind, "work": q.Work, "text": q.Text, "fields": fields, "asked": q.Asked}
	if output != "" {
		note["output"] = output
	}
	text, err := json.Marshal(note)
	if err != nil {
		return
	}
	logError := func(target string, err error) {
		if err != nil {
			c.log.Warn("cannot notify the "+target+" of a question; the question stays open", "question", id, "error", err)
		}
	}
	c.running.Go(func() {
		if targets.Webhook != "" {
			logError("webhook", box.Post(context.Background(), targets.Webhook, "application/json", text))
		}
		if len(targets.Command) > 0 {
			logError("command", box.RunWith(context.Background(), targets.Command, text))
		}
	})
}
