package properties

import (
	"maps"
	"testing"
)

// The file quotes what a Java properties file would take for something else.
func TestFile(t *testing.T) {
	got := string(File(map[string]string{"b": `a\b`, "a": "two\nlines", "c": "k=v;"}))
	want := "a=two\\nlines\nb=a\\\\b\nc=k=v;\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The names are those that the apache/kafka image documents, and they come back as they were.
func TestEnvRoundTrip(t *testing.T) {
	for name, want := range map[string]string{
		"node.id":  "KAFKA_NODE_ID",
		"a_b":      "KAFKA_A__B",
		"log.dirs": "KAFKA_LOG_DIRS",
		"listener.name.sasl.scram-sha-256.sasl.jaas.config": "KAFKA_LISTENER_NAME_SASL_SCRAM___SHA___256_SASL_JAAS_CONFIG",
	} {
		in := map[string]string{name: "x=y"}
		env := Env(in)
		if _, ok := env[want]; !ok || len(env) != 1 {
			t.Errorf("%s becomes %v, want %s", name, env, want)
		}
		var environ []string
		for variable, value := range env {
			environ = append(environ, variable+"="+value)
		}
		environ = append(environ, "KAFKA_HEAP_OPTS=-Xmx1g", "PATH=/bin")
		if got := FromEnv(environ); !maps.Equal(got, in) {
			t.Errorf("%s comes back as %v", name, got)
		}
	}
}
