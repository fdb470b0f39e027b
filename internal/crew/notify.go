package crew

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"time"

	"signalbox/internal/rules"
)

// notifyTime is how long telling somebody may take.
const notifyTime = 30 * time.Second

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
	ctx, cancel := context.WithTimeout(context.Background(), notifyTime)
	defer cancel()
	fields, err := Fields(ctx, c.box, q)
	if err != nil {
		c.log.Warn("cannot read what is asked in full", "question", id, "error", err)
	}
	text, err := json.Marshal(map[string]any{"box": c.box.ID(), "question": q.ID, "kind": q.Kind, "work": q.Work, "text": q.Text, "fields": fields, "asked": q.Asked})
	if err != nil {
		return
	}
	c.running.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), notifyTime)
		defer cancel()
		if places.Webhook != "" {
			if err := post(ctx, places.Webhook, text); err != nil {
				c.log.Warn("cannot tell the webhook of a question; it stands all the same", "question", id, "error", err)
			}
		}
		if len(places.Command) > 0 {
			command := exec.CommandContext(ctx, places.Command[0], places.Command[1:]...)
			command.Stdin = bytes.NewReader(text)
			if err := command.Run(); err != nil {
				c.log.Warn("cannot tell the command of a question; it stands all the same", "question", id, "error", err)
			}
		}
	})
}

func post(ctx context.Context, address string, text []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		return fmt.Errorf("it answered %s", response.Status)
	}
	return nil
}
