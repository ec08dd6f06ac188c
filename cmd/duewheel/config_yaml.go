package main

import (
	"bytes"
	"errors"
	"io"

	"go.yaml.in/yaml/v3"
)

// fileParser reads a configuration file. A value is the text that is written there, as in the environment: YAML would make the number 83 of
// a password 0123.
type fileParser struct{}

var errDocuments = errors.New("it holds several documents, with --- between them: only one can have settings")

func (fileParser) Unmarshal(b []byte) (map[string]any, error) {
	var of *yaml.Node
	for decoder := yaml.NewDecoder(bytes.NewReader(b)); ; {
		var document yaml.Node
		err := decoder.Decode(&document)
		switch {
		case errors.Is(err, io.EOF) && of == nil:
			return nil, nil
		case errors.Is(err, io.EOF):
			asWritten(of)
			var out map[string]any
			err := of.Decode(&out)
			return out, err
		case err != nil:
			return nil, err
		case isEmpty(&document):
		case of != nil:
			return nil, errDocuments
		default:
			of = &document
		}
	}
}

// Marshal makes it a parser of koanf, which asks for none of it.
func (fileParser) Marshal(map[string]any) ([]byte, error) { return nil, errors.ErrUnsupported }

func isEmpty(document *yaml.Node) bool {
	return len(document.Content) == 1 && document.Content[0].ShortTag() == "!!null"
}

// asWritten has the values below a node decoded as text, but for those that are none, or have a tag.
func asWritten(node *yaml.Node) {
	for i, below := range node.Content {
		if key := node.Kind == yaml.MappingNode && i%2 == 0; !key {
			asWritten(below)
		}
	}
	if node.Kind == yaml.ScalarNode && node.Style&yaml.TaggedStyle == 0 && node.Tag != "!!null" {
		node.Tag = "!!str"
	}
}
