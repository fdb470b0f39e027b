package chat

import tea "charm.land/bubbletea/v2"

// suspend does nothing: Windows has no jobs.
func suspend(<-chan struct{}) tea.Cmd { return nil }
