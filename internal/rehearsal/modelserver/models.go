package modelserver

import (
	"net/http"
	"strings"
)

// protocolOf returns the protocol of a request that does not ask for an answer.
func protocolOf(r *http.Request) protocol {
	switch {
	case strings.HasPrefix(r.URL.Path, "/v1beta"):
		return gemini{}
	case r.Header.Get("Anthropic-Version") != "" || strings.HasPrefix(r.URL.Path, "/v1/messages"):
		return messages{}
	case strings.HasPrefix(r.URL.Path, "/v1/responses"):
		return responses{}
	}
	return chat{}
}

// model is a model in the form of any protocol. Each protocol uses some of the fields.
type model struct {
	ID      string `json:"id,omitempty"`
	Object  string `json:"object,omitempty"`
	Created int64  `json:"created,omitempty"`
	OwnedBy string `json:"owned_by,omitempty"`

	Type        string `json:"type,omitempty"`
	DisplayName string `json:"display_name,omitempty"`
	CreatedAt   string `json:"created_at,omitempty"`

	Name    string   `json:"name,omitempty"`
	Version string   `json:"version,omitempty"`
	Input   int      `json:"inputTokenLimit,omitempty"`
	Output  int      `json:"outputTokenLimit,omitempty"`
	Methods []string `json:"supportedGenerationMethods,omitempty"`
}

type modelList struct {
	Object  string  `json:"object,omitempty"`
	Data    []model `json:"data,omitempty"`
	HasMore *bool   `json:"has_more,omitempty"`
	FirstID string  `json:"first_id,omitempty"`
	LastID  string  `json:"last_id,omitempty"`
	Models  []model `json:"models,omitempty"`
}

func newModelList(p protocol, names []string) modelList {
	var l modelList
	for _, n := range names {
		switch p.(type) {
		case gemini:
			l.Models = append(l.Models, model{Name: "models/" + n, Version: "rehearsal",
				Input: 1 << 20, Output: 1 << 16,
				Methods: []string{"generateContent", "countTokens"}})
		case messages:
			l.Data = append(l.Data, model{ID: n, Type: "model", DisplayName: n,
				CreatedAt: "1970-01-01T00:00:00Z"})
			l.HasMore, l.FirstID, l.LastID = new(bool), names[0], n
		default:
			l.Object = "list"
			l.Data = append(l.Data, model{ID: n, Object: "model", Created: 1, OwnedBy: "rehearsal"})
		}
	}
	return l
}

// listModels answers a request for the list of models, or for one of them.
func (s *Server) listModels(w http.ResponseWriter, r *http.Request) {
	p := protocolOf(r)
	req := s.addRequest(p.name(), r, nil)
	one := r.PathValue("model")
	names := s.script.script.Models
	switch {
	case !s.acceptsKey(p.key(r)):
		s.refuse(w, p, req, p.wrongKey(), "")
		return
	case one != "" && !s.script.hasModel(one):
		s.refuse(w, p, req, unknownModel(p.name(), one), "")
		return
	case one != "":
		names = []string{one}
	case len(names) == 0:
		names = []string{"rehearsal"}
	}
	s.finish(req, "models listed", http.StatusOK)
	list := newModelList(p, names)
	if one != "" {
		writeJSON(w, http.StatusOK, append(list.Data, list.Models...)[0])
		return
	}
	writeJSON(w, http.StatusOK, list)
}
