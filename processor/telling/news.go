package telling

import (
	"log/slog"
	"time"
)

// News is what the log has last said of a trouble that goes on. The same is news again after a minute.
type News struct {
	what string
	at   time.Time
}

// Is reports whether it is news, and takes it in.
func (n *News) Is(what string) bool {
	if what == n.what && time.Since(n.at) < time.Minute {
		return false
	}
	n.what, n.at = what, time.Now()
	return true
}

// Lasting is an error that may go on for long: it is said when it is news.
type Lasting string

// Tell says what is the matter, or takes in that nothing is.
func (l *Lasting) Tell(log *slog.Logger, err error, what string) {
	switch {
	case err == nil:
		*l = ""
	case string(*l) == err.Error():
		log.Debug(what, "error", err)
	default:
		*l = Lasting(err.Error())
		log.Warn(what, "error", err)
	}
}
