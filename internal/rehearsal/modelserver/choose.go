package modelserver

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// position is the position of a conversation in the script.
type position struct {
	conversation int
	used         []int   // by turn: answers sent or in progress
	faults       [][]int // by turn and fault: how often it happened
}

func newPosition(conversation, turns int) position {
	return position{conversation: conversation, used: make([]int, turns),
		faults: make([][]int, turns)}
}

// claim is the turn chosen for a request.
type claim struct {
	turn  *compiledTurn
	fault *Fault // nil if the turn answers
	since string // why an earlier turn did not answer, for the record
	pos   *position
	index int
}

func (c *claim) String() string {
	if c.fault != nil {
		return fmt.Sprintf("%s%s: fault %s", c.turn.where, c.since, c.fault.Kind)
	}
	return c.turn.where + c.since
}

// choose claims the turn that answers req.
func (s *Server) choose(req *Request) (*claim, *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pos, why := s.locate(req)
	var used []string
	if pos != nil {
		conv := &s.script.conversations[pos.conversation]
		req.Conversation = conv.name
		for i := range conv.turns {
			t := &conv.turns[i]
			switch reason := t.match.mismatch(req); {
			case t.times > 0 && pos.used[i] >= t.times:
				why, used = append(why, fmt.Sprintf("%s is used up", t.where)),
					append(used, t.where)
			case reason != "":
				why = append(why, fmt.Sprintf("%s: %s", t.where, reason))
			default:
				return pos.take(t, i), nil
			}
		}
	}
	if t := s.script.otherwise; t != nil {
		c := s.otherwise.take(t, 0)
		if n := len(used); n > 0 { // explain it to someone who repeated a request
			c.since = fmt.Sprintf(", since %s is used up", used[n-1])
		}
		return c, nil
	}
	return nil, &refusal{status: http.StatusBadRequest, code: "script_unmatched", final: true,
		message: fmt.Sprintf(
			"%s: nothing in the script matches this request (turn %d, last user text %.80q): %s",
			s.script.name, req.answers()+1, req.lastUser(), strings.Join(why, "; "))}
}

// locate returns the position of the request's conversation, or assigns a new one. The caller holds
// s.mu.
func (s *Server) locate(req *Request) (*position, []string) {
	key := "opening\x00" + req.opening()
	if name := s.script.script.KeyHeader; name != "" {
		if value := req.Header.Get(name); value != "" {
			key = "header\x00" + value
		}
	}
	sum := sha256.Sum256([]byte(key))
	key = string(sum[:])
	if pos := s.conversations[key]; pos != nil {
		return pos, nil
	}
	if len(s.conversations) >= maxConversations {
		return nil, []string{fmt.Sprintf("there are %d conversations already", maxConversations)}
	}
	var why []string
	for i := range s.script.conversations {
		conv := &s.script.conversations[i]
		switch reason := conv.match.mismatch(req); {
		case conv.times > 0 && s.assigned[i] >= conv.times:
			why = append(why, conv.where+" is used up")
		case reason != "":
			why = append(why, conv.where+": "+reason)
		default:
			pos := newPosition(i, len(conv.turns))
			s.conversations[key] = &pos
			s.assigned[i]++
			return &pos, nil
		}
	}
	return nil, why
}

// take counts the turn as used, or its next fault as occurred.
func (p *position) take(t *compiledTurn, index int) *claim {
	c := &claim{turn: t, pos: p, index: index}
	if p.faults[index] == nil {
		p.faults[index] = make([]int, len(t.Faults))
	}
	for i := range t.Faults {
		f := &t.Faults[i]
		if f.Times < 0 || p.faults[index][i] < max(f.Times, 1) {
			p.faults[index][i]++
			c.fault = f
			return c
		}
	}
	p.used[index]++
	return c
}

// release makes a turn available again if its answer was not sent completely.
func (s *Server) release(c *claim, done bool) {
	if done || c.fault != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.pos.used[c.index]--
}

// mismatch returns why a request does not match, or "".
func (m *compiledMatch) mismatch(req *Request) string {
	if m == nil {
		return ""
	}
	if n := req.answers() + 1; m.turn != 0 && m.turn != n {
		return fmt.Sprintf("turn is %d, not %d", n, m.turn)
	}
	var tools, results []string
	for _, t := range req.Tools {
		tools = append(tools, t.Name)
	}
	for _, r := range req.newResults() {
		results = append(results, r.Text)
	}
	for _, f := range []struct {
		what  string
		re    *regexp.Regexp
		texts []string
	}{
		{"the last user text", m.user, []string{req.lastUser()}},
		{"the system prompt", m.system, []string{req.System}},
		{"the model", m.model, []string{req.Model}},
		{"no tool's name", m.tool, tools},
		{"no new tool result", m.result, results},
	} {
		if f.re == nil || slices.ContainsFunc(f.texts, f.re.MatchString) {
			continue
		}
		if strings.HasPrefix(f.what, "no ") {
			return fmt.Sprintf("%s matches %q", f.what, f.re)
		}
		return fmt.Sprintf("%s does not match %q", f.what, f.re)
	}
	return ""
}
