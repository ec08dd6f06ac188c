package bench

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// What stands between two lines of a document is generated. Tables have names: bench, bench-ask, bench-look, bench-scale, bench-size, bench-failover and soak.
func marks(name string) (begin, end string) {
	return "<!-- " + name + ":begin -->", "<!-- " + name + ":end -->"
}

// ErrNoMarks means that a document has no place for the table: the lines <!-- name:begin --> and <!-- name:end -->.
var ErrNoMarks = errors.New("bench: the document does not have the marks of the table, once each and in order")

// UpdateDocument puts a table between its marks in a document, in place of what is there.
func UpdateDocument(path, name, table string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	updated, err := between(string(old), name, table)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", path, name, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(updated), info.Mode().Perm())
}

func between(document, name, table string) (string, error) {
	beginMark, endMark := marks(name)
	begin, rest, ok := strings.Cut(document, beginMark+"\n")
	_, end, ok2 := strings.Cut(rest, endMark+"\n")
	if !ok || !ok2 || strings.Contains(begin, endMark) || strings.Contains(end, beginMark) || strings.Contains(end, endMark) {
		return "", ErrNoMarks
	}
	return begin + beginMark + "\n" + strings.TrimRight(table, "\n") + "\n" + endMark + "\n" + end, nil
}
