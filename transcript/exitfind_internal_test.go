package transcript

import "testing"

func TestMayNameProtocol(t *testing.T) {
	for text, want := range map[string]bool{
		`{"protocol":"apm2_agent_exit"}`:   true,
		`{"xx":"x","y":"apm2_agent_exit"}`: true,
		`apm2_agent_exit`:                  true,
		`{"a":"\u0061pm2_agent_exit"}`:     true,
		`{"a":"agent_exit"}`:               false,
		`{"a":"exit","b":"\n"}`:            false,
		`xit`:                              false,
		``:                                 false,
	} {
		if got := mayNameProtocol([]byte(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
