package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"signalbox/internal/lazy"
)

// NotifyEvent is something that the operator is notified of.
type NotifyEvent string

const (
	NotifyQuestion NotifyEvent = "question" // an agent or signalbox asks something
	NotifyApproval NotifyEvent = "approval" // a merge needs approval
	NotifyDone     NotifyEvent = "done"     // every task of the plan is completed
	NotifyStuck    NotifyEvent = "stuck"    // nothing runs, and nothing can start
	NotifyBudget   NotifyEvent = "budget"   // a budget or the token window is used up
)

// NotifyEvents returns all events.
func NotifyEvents() []NotifyEvent {
	return []NotifyEvent{NotifyQuestion, NotifyApproval, NotifyDone, NotifyStuck, NotifyBudget}
}

// Notify lists who is notified. A target whose main setting is empty is not used. Events of a
// target select what it is notified of; nil means everything.
type Notify struct {
	Webhook NotifyWebhook `yaml:"webhook"`
	Command NotifyCommand `yaml:"command"`
	Ntfy    NotifyNtfy    `yaml:"ntfy"`
	Desktop NotifyDesktop `yaml:"desktop"`
}

// NotifyWebhook is a server that gets notifications as JSON. In the text it may be only the
// address.
type NotifyWebhook struct {
	URL string `yaml:"url"`
	// SecretEnv and SecretFile name the secret that signs the requests. The variable is used if it
	// is set. Without either, requests are not signed. SecretFile is relative to the folder of the
	// box in the text. Load resolves it.
	SecretEnv  string        `yaml:"secret_env"`
	SecretFile string        `yaml:"secret_file"`
	Events     []NotifyEvent `yaml:"events"`
}

// NotifyCommand is a program that gets notifications as JSON on standard input. In the text it may
// be only the program with its arguments.
type NotifyCommand struct {
	Run []string `yaml:"run"`
	// EnvPass are the names of environment variables that it gets besides the usual ones.
	EnvPass []string      `yaml:"env_pass"`
	Events  []NotifyEvent `yaml:"events"`
}

// NotifyNtfy is a topic of an ntfy server.
type NotifyNtfy struct {
	URL   string `yaml:"url"`
	Topic string `yaml:"topic"`
	// TokenEnv is the environment variable with the access token. Empty means that the server needs
	// none.
	TokenEnv string `yaml:"token_env"`
	// Click is the address that opens when the notification is tapped. Empty means none.
	Click  string        `yaml:"click"`
	Events []NotifyEvent `yaml:"events"`
}

// NotifyDesktop shows notifications on the desktop of this machine. In the text it may be only true
// or false.
type NotifyDesktop struct {
	Enabled bool          `yaml:"enabled"`
	Events  []NotifyEvent `yaml:"events"`
}

func (NotifyWebhook) mainField() string { return "url" }
func (NotifyCommand) mainField() string { return "run" }
func (NotifyDesktop) mainField() string { return "enabled" }

// unknownHint helps users who try to write the secret itself.
func (NotifyWebhook) unknownHint(name string) string { return secretHint(name, "secret_env") }

func (NotifyNtfy) unknownHint(name string) string { return secretHint(name, "token_env") }

func secretHint(name, setting string) string {
	switch strings.ToLower(name) {
	case "secret", "token", "key", "password":
		return fmt.Sprintf("do not write secrets here; set %s to the name of the environment variable that has it", setting)
	}
	return ""
}

// fill enables a desktop for which only events are set.
func (n *Notify) fill(set places) {
	if at := setting("notify", "desktop"); !set.has(at.field("enabled")) &&
		len(n.Desktop.Events) > 0 {
		n.Desktop.Enabled = true
	}
}

func (n *Notify) check(f *faults) {
	at := setting("notify", "webhook")
	f.add(checkWebhook(at.field("url"), n.Webhook.URL))
	f.add(checkSecretEnv(at.field("secret_env"), n.Webhook.SecretEnv))
	n.needs(at, n.Webhook.URL == "" && (n.Webhook.SecretEnv != "" || n.Webhook.SecretFile != "" ||
		len(n.Webhook.Events) > 0), "url", f)
	checkNotifyEvents(at, n.Webhook.Events, f)

	at = setting("notify", "command")
	f.add(checkProgram(at.field("run"), n.Command.Run))
	n.needs(at, len(n.Command.Run) == 0 &&
		(len(n.Command.EnvPass) > 0 || len(n.Command.Events) > 0), "run", f)
	checkEnvPass(at.field("env_pass"), n.Command.EnvPass, f)
	checkNotifyEvents(at, n.Command.Events, f)

	n.Ntfy.check(f)
	checkNotifyEvents(setting("notify", "desktop"), n.Desktop.Events, f)
}

// checkSecretEnv reports what is not the name of an environment variable. Empty is valid.
func checkSecretEnv(at settingPath, name string) *settingError {
	if name == "" {
		return nil
	}
	wrong := checkKeyEnv(at, name)
	if strings.HasPrefix(name, "whsec_") || strings.HasPrefix(name, "tk_") {
		wrong = &settingError{at: at,
			fault: "looks like the secret itself, which must not be in the file"}
	}
	if wrong != nil {
		wrong.hint = "write the name of the environment variable that has the secret, such as SIGNALBOX_WEBHOOK_SECRET"
	}
	return wrong
}

// needs reports a target whose main setting is missing.
func (*Notify) needs(at settingPath, missing bool, name string, f *faults) {
	if missing {
		f.fail(at, "add "+name+", or remove the target", "needs %s", name)
	}
}

// topics are the names that an ntfy server accepts.
var topics = lazy.Regexp(`^[-_A-Za-z0-9]{1,64}$`)

func (n NotifyNtfy) check(f *faults) {
	at := setting("notify", "ntfy")
	f.add(checkAddress(at.field("url"), n.URL))
	f.add(checkAddress(at.field("click"), n.Click))
	f.add(checkSecretEnv(at.field("token_env"), n.TokenEnv))
	checkNotifyEvents(at, n.Events, f)
	if u, err := url.Parse(n.URL); err == nil && u.User != nil {
		f.fail(at.field("url"),
			"do not write secrets here; set token_env to the name of the environment variable that has a token", "has a password")
	}
	used := n.URL != "" || n.Topic != "" || n.TokenEnv != "" || n.Click != "" || len(n.Events) > 0
	switch {
	case !used:
	case n.URL == "":
		f.fail(at, "write the address of the server, such as https://ntfy.sh; everybody who knows the topic can read it there", "needs url")
	case n.Topic == "":
		f.fail(at, "write a name that is hard to guess, unless the server needs a token",
			"needs topic")
	case !topics().MatchString(n.Topic):
		f.fail(at.field("topic"), "use at most 64 letters, digits, - and _", "%q is not a topic",
			n.Topic)
	}
}

func checkNotifyEvents(at settingPath, events []NotifyEvent, f *faults) {
	for i, event := range events {
		item := at.field("events").item(i)
		if !slices.Contains(NotifyEvents(), event) {
			f.fail(item, "the events are "+list(NotifyEvents()), "there is no event %q", event)
		}
		f.add(checkRepeated(item, events, i))
	}
}
