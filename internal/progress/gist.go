package progress

import (
	"encoding/json"
	"strings"
)

// gist is what a line of an agent says to people. Most agents write their streams as JSON objects; of those it is the words
// or the command in them, whatever the agent. Other lines are their own gist.
func gist(line string) string {
	if !strings.HasPrefix(line, "{") {
		return tail(line)
	}
	decoder := json.NewDecoder(strings.NewReader(line))
	var found [len(tellingKeys)]string
	collect(decoder, "", &found)
	for _, text := range found {
		if text != "" {
			return text
		}
	}
	return line
}

// tail is the gist of a line whose beginning is not there: the words before the quote that ends them, if it is the rest of an
// object.
func tail(line string) string {
	if !strings.HasSuffix(line, "}") || !strings.Contains(line, `"`) {
		return line
	}
	for end := 0; end < len(line); end++ {
		switch line[end] {
		case '\\':
			end++
		case '"':
			var words string
			if strings.IndexByte(",}]", line[end+1]) >= 0 && json.Unmarshal([]byte(`"`+line[:end]+`"`), &words) == nil && strings.Contains(words, " ") {
				return words
			}
			return line
		}
	}
	return line
}

// tellingKeys are the keys under which agents' streams have what people want to know, the best first.
var tellingKeys = [...]string{"text", "command", "content", "file_path", "path", "pattern", "query", "message", "result", "output", "aggregated_output",
	"title", "name", "tool_name", "subtype", "type"}

// collect notes the first string under each telling key, as far as the line can be read: a long one was cut.
func collect(d *json.Decoder, key string, found *[len(tellingKeys)]string) bool {
	token, err := d.Token()
	if err != nil {
		return false
	}
	switch token := token.(type) {
	case json.Delim:
		return collectIn(d, token, key, found)
	case string:
		for i, telling := range tellingKeys {
			if key == telling && found[i] == "" {
				found[i] = strings.TrimSpace(token)
			}
		}
	}
	return true
}

// collectIn reads an object or a list. The strings of a list are under the list's key.
func collectIn(d *json.Decoder, begin json.Delim, key string, found *[len(tellingKeys)]string) bool {
	for d.More() {
		if begin == '{' {
			token, err := d.Token()
			if err != nil {
				return false
			}
			key, _ = token.(string)
		}
		if !collect(d, key, found) {
			return false
		}
	}
	_, err := d.Token()
	return err == nil
}
