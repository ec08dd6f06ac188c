package brokers

// Listener names a way to connect to a broker.
type Listener string

// The listeners. Inter-broker traffic uses the plain one.
const (
	Plain Listener = "PLAIN" // no encryption, no authentication
)

func (l Listener) known() bool { return l == Plain }

func (l Listener) protocol() string { return "PLAINTEXT" }
