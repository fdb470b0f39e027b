package envelope

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// fieldID identifies a value that a decoder reads. 0 is none.
type fieldID uint8

const (
	fieldType fieldID = iota + 1
	fieldSubtype
	fieldRole
	fieldStatus
	fieldDelta
	fieldParent
	fieldSession     // identifies the session; format.session says in which lines
	fieldPartSession // opencode repeats it in the part
	fieldReplay
	fieldUUID
	fieldMessageID
	fieldPartType // the type of a content block, an item or a part
	fieldPart     // the content block as a whole
	fieldReason
	fieldText
	fieldResult // claude repeats its last text here
	fieldIsError
	fieldError
	fieldErrorStatus
	fieldInput
	fieldCached
	fieldOutput
	fieldCost
	fieldCacheWrite
	fieldTotal
	fieldModel
	fieldMessageInput
	fieldMessageCached
	fieldMessageOutput
	fieldMessageCacheWrite
	fieldLimitStatus
	fieldLimitReset
	fieldAttempt
	fieldRetryDelay // in milliseconds
	fieldCount
)

// Nodes of a schema. Node 0 is any path that is not in it.
const (
	rootNode   = 1
	keyPending = -1 // not a node: the key of a member is being read
)

// schema is a tree of the JSON paths that a decoder reads.
type schema struct{ nodes []schemaNode }

type schemaNode struct {
	children []schemaChild
	// the nodes of the children by key, if there are too many to compare with each; else nil
	index map[string]int
	field fieldID
	text  bool
}

type schemaChild struct {
	key  string
	node int
}

// newSchema returns the schema for paths such as "message.content[].text". Values at the paths in
// text are streamed. known lists other members at the top level; the rest are reported as drift.
func newSchema(paths map[string]fieldID, text []string, known string) *schema {
	s := &schema{nodes: make([]schemaNode, 2)}
	for path, id := range paths {
		s.nodes[s.add(path)].field = id
	}
	for _, path := range text {
		s.nodes[s.add(path)].text = true
	}
	for name := range strings.FieldsSeq(known) {
		s.add(name)
	}
	for i := range s.nodes {
		if node := &s.nodes[i]; len(node.children) > maxCompared {
			node.index = map[string]int{}
			for _, c := range node.children {
				node.index[c.key] = c.node
			}
		}
	}
	return s
}

func (s *schema) add(path string) int {
	node := rootNode
	for key := range strings.SplitSeq(strings.ReplaceAll(path, element, "."+element), ".") {
		next := s.child(node, []byte(key))
		if key == element {
			next = s.elements(node)
		}
		if next == 0 {
			next = len(s.nodes)
			s.nodes = append(s.nodes, schemaNode{})
			s.nodes[node].children = append(s.nodes[node].children, schemaChild{key, next})
		}
		node = next
	}
	return node
}

// element is the key of the elements of an array.
const element = "[]"

// maxCompared is how many children are found faster by comparing than in a map.
const maxCompared = 8

// child returns the node of a member, 0 if the schema does not have it.
func (s *schema) child(node int, key []byte) int {
	if index := s.nodes[node].index; index != nil {
		return index[string(key)]
	}
	for _, c := range s.nodes[node].children {
		if c.key == string(key) && c.key != element {
			return c.node
		}
	}
	return 0
}

// hasFolded reports whether the schema has a member that differs from key in case only, as
// encoding/json compares them.
func (s *schema) hasFolded(node int, key []byte) bool {
	ascii := isASCII(key)
	for _, c := range s.nodes[node].children {
		// A character of another script that folds to an ASCII letter is longer than the letter.
		if ascii && (len(key) != len(c.key) || len(key) == 0 || key[0]|0x20 != c.key[0]|0x20) ||
			c.key == element {
			continue
		}
		if bytes.EqualFold([]byte(c.key), key) {
			return true
		}
	}
	return false
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func (s *schema) elements(node int) int {
	for _, c := range s.nodes[node].children {
		if c.key == element {
			return c.node
		}
	}
	return 0
}

func (s *schema) field(node int) fieldID { return s.nodes[node].field }
func (s *schema) isText(node int) bool   { return s.nodes[node].text }

// isObject reports whether the schema has members of the value.
func (s *schema) isObject(node int) bool { return len(s.nodes[node].children) > 0 }
