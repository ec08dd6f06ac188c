package processor

import "fmt"

// writerName is how a lane signs its checkpoints; its transactional ids begin with it.
func writerName(group, instance string, lane int) string {
	return fmt.Sprintf("%s-%s-%d", group, instance, lane)
}

// writerIDs is how many transactional ids a writer has: two that take turns, and others in their
// place while a target keeps one busy.
const writerIDs = 8

// transactionalIDs are those of a writer.
func transactionalIDs(writer string) []string {
	ids := make([]string, writerIDs)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-%d", writer, i)
	}
	return ids
}
