package crew

import (
	"context"
	"encoding/json"

	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
)

// notify tells the places that the configuration names that the human is asked something. Whatever comes of it, the
// question stands.
func (c *Crew) notify(id string) {
	places := c.box.Config.Notify
	if places.Webhook == "" && len(places.Command) == 0 {
		return
	}
	var q *rules.Question
	c.box.Engine.View(func(s *rules.State) { q, _ = s.Question(id) })
	if q == nil {
		return
	}
	fields, err := Fields(context.Background(), c.box, q)
	if err != nil {
		c.log.Warn("cannot read what is asked in full", "question", id, "error", err)
	}
	text, err := json.Marshal(map[string]any{"box": c.box.ID(), "question": q.ID, "kind": q.Kind, "work": q.Work, "text": q.Text, "fields": fields, "asked": q.Asked})
	if err != nil {
		return
	}
	told := func(place string, err error) {
		if err != nil {
			c.log.Warn("cannot tell the "+place+" of a question; it stands all the same", "question", id, "error", err)
		}
	}
	c.running.Go(func() {
		if places.Webhook != "" {
			told("webhook", box.Post(context.Background(), places.Webhook, "application/json", text))
		}
		if len(places.Command) > 0 {
			told("command", box.RunWith(context.Background(), places.Command, text))
		}
	})
}
