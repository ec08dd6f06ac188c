package main

import (
	"log/slog"
	"slices"
	"time"

	"github.com/duewheel/duewheel/processor"
)

// settings is what file, environment and flags say once they are put together. A zero value
// means that nothing was said: its user fills in the default.
type settings struct {
	Brokers     []string
	ClientID    string
	Rack        string
	Compression string
	TLS         tlsSettings
	SASL        saslSettings

	Group              string
	Protocol           processor.Protocol
	InstanceID         string
	SessionTimeout     time.Duration
	HeartbeatInterval  time.Duration
	TransactionTimeout time.Duration

	Guarantee            processor.Guarantee
	Lanes                int
	StateDir             string
	MemoryBudget         int64
	NearWindow           time.Duration
	BatchRecords         int
	BatchBytes           int64
	CommitInterval       time.Duration
	TurnTimeout          time.Duration
	ShutdownTimeout      time.Duration
	RetryBackoff         time.Duration
	RetryBackoffMax      time.Duration
	UnknownTargetAfter   time.Duration
	ForbiddenTargetAfter time.Duration
	MaxClockSkew         time.Duration
	AcceptLoss           bool
	Standbys             int
	Instance             string

	Routes []routeSettings

	AdminListen string
	LogLevel    slog.Level
	LogFormat   string

	// unread are the keys, with N for a place in a list, of which something was said that could not be
	// understood. That they are missing is not worth a further message.
	unread map[string]bool
}

// isUnread tells whether something that could not be understood was said of one of the keys.
func (s *settings) isUnread(paths ...string) bool {
	return slices.ContainsFunc(paths, func(path string) bool { return s.unread[general(path)] })
}

// tlsSettings says how to speak TLS. Certificates come as files, or as PEM text as the Java
// client's ssl.keystore.key does.
type tlsSettings struct {
	Enabled            *bool // nil: as soon as anything else is set
	CA, CAFile         string
	Cert, CertFile     string
	Key, KeyFile       string
	ServerName         string
	VerifyHostname     *bool
	InsecureSkipVerify bool
}

type saslSettings struct {
	Enabled   *bool // nil: as soon as a mechanism is set
	Mechanism string
	Username  string
	Password  string
}

// routeSettings is one entry of routes.
type routeSettings struct {
	Topic      string
	Target     string
	Delay      time.Duration
	Allow      []string
	MaxDelay   time.Duration
	DeadLetter string
	Emit       string // all or none
}
