package bench

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// What stands between these two lines of a document is generated.
const (
	beginMark = "<!-- bench:begin -->"
	endMark   = "<!-- bench:end -->"
)

// ErrNoMarks means that a document has no place for the table.
var ErrNoMarks = errors.New("bench: the document does not have the lines " + beginMark + " and " + endMark + ", once each and in this order")

// UpdateDocument puts a table between the marks of a document, in place of what is there.
func UpdateDocument(path, table string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	updated, err := between(string(old), table)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(updated), info.Mode().Perm())
}

func between(document, table string) (string, error) {
	begin, rest, ok := strings.Cut(document, beginMark+"\n")
	_, end, ok2 := strings.Cut(rest, endMark+"\n")
	if !ok || !ok2 || strings.Contains(begin, endMark) || strings.Contains(end, beginMark) || strings.Contains(end, endMark) {
		return "", ErrNoMarks
	}
	return begin + beginMark + "\n" + strings.TrimRight(table, "\n") + "\n" + endMark + "\n" + end, nil
}
