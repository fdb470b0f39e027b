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

// describeModel returns a model in the form of a protocol.
func describeModel(p protocol, name string) object {
	switch p.(type) {
	case gemini:
		return object{"name": "models/" + name, "version": "rehearsal", "inputTokenLimit": 1 << 20,
			"outputTokenLimit":           1 << 16,
			"supportedGenerationMethods": []string{"generateContent", "countTokens"}}
	case messages:
		return object{"id": name, "type": "model", "display_name": name,
			"created_at": "1970-01-01T00:00:00Z"}
	}
	return object{"id": name, "object": "model", "created": 1, "owned_by": "rehearsal"}
}

// modelList returns a list of models in the form of a protocol.
func modelList(p protocol, names []string) object {
	var list []object
	for _, name := range names {
		list = append(list, describeModel(p, name))
	}
	switch p.(type) {
	case gemini:
		return object{"models": list}
	case messages:
		return object{"data": list, "has_more": false, "first_id": names[0],
			"last_id": names[len(names)-1]}
	}
	return object{"object": "list", "data": list}
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
	case len(names) == 0:
		names = []string{"rehearsal"}
	}
	s.finish(req, "models listed", http.StatusOK)
	if one != "" {
		writeJSON(w, http.StatusOK, describeModel(p, one))
		return
	}
	writeJSON(w, http.StatusOK, modelList(p, names))
}
