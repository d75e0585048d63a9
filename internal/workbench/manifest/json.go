package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// JSON is nearly a subset of YAML. It is parsed as JSON nevertheless, because YAML limits a key to 1,024 characters, and its errors are about YAML.

// parseJSON returns a JSON value as nodes of YAML with their lines.
func parseJSON(text []byte) (*yaml.Node, error) {
	r := nodeReader{text: text, line: 1, decoder: jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	return r.readValue()
}

// nodeReader reads nodes from a text.
type nodeReader struct {
	text    []byte
	decoder *jsontext.Decoder
	// line is the line of the byte at counted.
	line, counted int
}

// readValue reads a value with all values in it.
func (r *nodeReader) readValue() (*yaml.Node, error) {
	node, err := r.readToken()
	if err != nil {
		return nil, err
	}
	for node.Kind != yaml.ScalarNode {
		if next := r.decoder.PeekKind(); next == ']' || next == '}' {
			_, err := r.decoder.ReadToken()
			return node, err
		}
		inside, err := r.readValue()
		if err != nil {
			return nil, err
		}
		node.Content = append(node.Content, inside)
	}
	return node, nil
}

// readToken reads a name, a scalar, or the beginning of a list or an object.
func (r *nodeReader) readToken() (*yaml.Node, error) {
	token, err := r.decoder.ReadToken()
	if err != nil {
		return nil, err
	}
	end := int(r.decoder.InputOffset()) // no token has a line break in it
	r.line += bytes.Count(r.text[r.counted:end], []byte("\n"))
	r.counted = end
	switch token.Kind() {
	case '{':
		return &yaml.Node{Kind: yaml.MappingNode, Line: r.line}, nil
	case '[':
		return &yaml.Node{Kind: yaml.SequenceNode, Line: r.line}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Line: r.line, Value: token.String()}, nil
}

// notJSON returns why the text is not JSON, with the line of the file.
func (s source) notJSON() error {
	var text json.RawMessage
	err := json.Unmarshal(s.text, &text)
	line := s.line
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		line += bytes.Count(s.text[:syntax.Offset], []byte("\n"))
	}
	return fmt.Errorf("%s:%d: this is not JSON: %w", s.file, line, err)
}
