// Package properties writes the settings of a Kafka process as a file, and as the environment that configures the
// apache/kafka container image.
//
// That image takes each property as KAFKA_ and its name in capitals, where _ stands for a dot, __ for an underscore and ___ for
// a dash. Our own image keeps the same contract, so one container request serves both.
package properties

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// File gives the text of a Java properties file, in a fixed order.
func File(p map[string]string) []byte {
	var b strings.Builder
	escape := strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	for _, name := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintf(&b, "%s=%s\n", name, escape.Replace(p[name]))
	}
	return []byte(b.String())
}

const prefix = "KAFKA_"

// other variables of the image begin like a property and are none.
var other = []string{"KAFKA_HEAP_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_OPTS", "KAFKA_VERSION"}

// Env gives the variables for these properties.
func Env(p map[string]string) map[string]string {
	upper := strings.NewReplacer("-", "___", "_", "__", ".", "_")
	env := make(map[string]string, len(p))
	for name, value := range p {
		env[prefix+strings.ToUpper(upper.Replace(name))] = value
	}
	return env
}

// FromEnv gives the properties that an environment in the form of os.Environ names. It inverts Env for names in lower case,
// as all of Kafka's are.
func FromEnv(environ []string) map[string]string {
	lower := strings.NewReplacer("___", "-", "__", "_", "_", ".")
	p := map[string]string{}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		rest, ok := strings.CutPrefix(name, prefix)
		if ok && !slices.Contains(other, name) {
			p[strings.ToLower(lower.Replace(rest))] = value
		}
	}
	return p
}
