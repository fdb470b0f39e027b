package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNotify checks that the short and the full form of each target mean the same.
func TestNotify(t *testing.T) {
	want := Notify{Webhook: NotifyWebhook{URL: "https://example.org/hook"},
		Command: NotifyCommand{Run: []string{"tell-me", "--urgent"}},
		Desktop: NotifyDesktop{Enabled: true}}
	for _, text := range []string{
		"notify: {webhook: 'https://example.org/hook', command: [tell-me, --urgent], desktop: true}",
		"notify: {webhook: {url: 'https://example.org/hook'}, command: {run: [tell-me, --urgent]}, desktop: {enabled: true}}",
	} {
		if diff := cmp.Diff(want, mustParse(t, text).Notify); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	for text, enabled := range map[string]bool{
		"notify: {desktop: {events: [done]}}":                 true,
		"notify: {desktop: {enabled: false, events: [done]}}": false,
		"notify: {desktop: false}":                            false,
		"notify: {desktop: }":                                 false,
	} {
		if got := mustParse(t, text).Notify.Desktop.Enabled; got != enabled {
			t.Errorf("%s: enabled %v", text, got)
		}
	}
}
