package envelope

import "strings"

// fieldID names a value that an envelope's reader wants; 0 is none.
type fieldID uint8

const (
	fieldType fieldID = iota + 1
	fieldSubtype
	fieldRole
	fieldStatus
	fieldDelta
	fieldParent
	fieldSession
	fieldMessageID
	fieldPartType // the type of a content block, an item or a part
	fieldPart     // the content block as a whole
	fieldReason
	fieldText
	fieldResult // claude's repetition of its last text
	fieldIsError
	fieldError
	fieldInput
	fieldCached
	fieldOutput
	fieldCost
	fieldMessageInput
	fieldMessageCached
	fieldMessageOutput
	fieldLimitStatus
	fieldLimitReset
	fieldCount
)

// Nodes of a schema's tree. Node 0 is everything that is not in it.
const (
	rootNode   = 1
	keyPending = -1 // not a node: a member's key is being read
)

// schema is a tree of the JSON paths that an envelope's reader wants.
type schema struct{ nodes []schemaNode }

type schemaNode struct {
	children []schemaChild
	field    fieldID
	text     bool
}

type schemaChild struct {
	key  string
	node int
}

// newSchema builds the tree from paths such as "message.content[].text"; text paths are streamed, the members in
// known are no drift.
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
	return s
}

func (s *schema) add(path string) int {
	node := rootNode
	for key := range strings.SplitSeq(strings.ReplaceAll(path, element, "."+element), ".") {
		next := s.child(node, []byte(key))
		if next == 0 {
			next = len(s.nodes)
			s.nodes = append(s.nodes, schemaNode{})
			s.nodes[node].children = append(s.nodes[node].children, schemaChild{key, next})
		}
		node = next
	}
	return node
}

// element is the key of an array's elements.
const element = "[]"

func (s *schema) child(node int, key []byte) int {
	for _, c := range s.nodes[node].children {
		if c.key == string(key) {
			return c.node
		}
	}
	return 0
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
