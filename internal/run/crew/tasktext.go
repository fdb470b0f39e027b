package crew

import (
	"context"
	"encoding/json"
	"io"
	"strings"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/plan"
)

// TaskText returns what a task of a plan asks for, in Markdown: its sections in the plan, and the specification of the business analyst if
// there is one. Text that was redacted is left out, and other work has none.
func TaskText(ctx context.Context, b *box.Box, w *rules.Work) (string, error) {
	if w.Task == nil || w.Task.Kind != rules.KindTask {
		return "", nil
	}
	text, err := readBlob(ctx, b, w.Task.Text)
	if err != nil {
		return "", err
	}
	sections := string(text)
	var task plan.Task
	if json.Unmarshal(text, &task) == nil {
		sections = task.Sections()
	}
	text, err = readBlob(ctx, b, w.Task.Specification)
	if err != nil {
		return "", err
	}
	specification := string(text)
	if fields := storedBody(text); fields != nil {
		specification = FieldsText(fields)
	}
	if specification != "" {
		specification = "**Specification**\n\n" + specification
	}
	return strings.TrimSpace(sections + "\n\n" + specification), nil
}

// readBlob returns a blob, nil if there is none any more.
func readBlob(ctx context.Context, b *box.Box, digest signalbox.Hash) ([]byte, error) {
	if digest == (signalbox.Hash{}) {
		return nil, nil
	}
	r, err := b.Blob(ctx, digest)
	if signalbox.CodeOf(err) == signalbox.CodeNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}
