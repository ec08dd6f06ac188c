package main

import (
	"slices"
	"strings"
	"testing"
)

// ofServices is what the kubelet sets for Services of these names, as of Kubernetes 1.34.
var ofServices = []string{
	// duewheel, with a port that has a name
	"DUEWHEEL_SERVICE_HOST=10.96.14.7",
	"DUEWHEEL_SERVICE_PORT=9464",
	"DUEWHEEL_SERVICE_PORT_METRICS=9464",
	"DUEWHEEL_SERVICE_PORT_HTTP_METRICS=9464",
	"DUEWHEEL_PORT=tcp://10.96.14.7:9464",
	"DUEWHEEL_PORT_9464_TCP=tcp://10.96.14.7:9464",
	"DUEWHEEL_PORT_9464_TCP_PROTO=tcp",
	"DUEWHEEL_PORT_9464_TCP_PORT=9464",
	"DUEWHEEL_PORT_9464_TCP_ADDR=10.96.14.7",
	// duewheel-metrics-2
	"DUEWHEEL_METRICS_2_SERVICE_HOST=10.96.14.8",
	"DUEWHEEL_METRICS_2_SERVICE_PORT=53",
	"DUEWHEEL_METRICS_2_PORT=udp://10.96.14.8:53",
	"DUEWHEEL_METRICS_2_PORT_53_UDP=udp://10.96.14.8:53",
	"DUEWHEEL_METRICS_2_PORT_53_UDP_ADDR=10.96.14.8",
	"DUEWHEEL_METRICS_2_PORT_9999_SCTP=sctp://[fd00::8]:9999",
	// duewheel-kafka, whose variables begin as settings do, and duewheel-routes-0
	"DUEWHEEL_KAFKA_SERVICE_HOST=10.96.14.9",
	"DUEWHEEL_KAFKA_PORT=tcp://10.96.14.9:9092",
	"DUEWHEEL_ROUTES_0_SERVICE_HOST=10.96.14.9",
}

// A Service whose name begins with duewheel keeps no process of its namespace from running.
func TestVariablesOfServicesAreNoSettings(t *testing.T) {
	s, problems := judge(t, sources{File: writeFile(t, "duewheel.yaml", smallest), Env: ofServices})
	if problems != nil || len(s.Routes) != 1 {
		t.Errorf("problems:\n  %s\nroutes %+v", strings.Join(problems, "\n  "), s.Routes)
	}
}

// What only looks like them is a mistake of a person.
func TestVariablesThatNoServiceSets(t *testing.T) {
	for _, entry := range []string{
		"DUEWHEEL_PORT=9464", "DUEWHEEL_ADMIN_PORT=9464", "DUEWHEEL_PORT_TCP=tcp://10.96.14.7:9464", "DUEWHEEL_SERVICE=x", "DUEWHEEL_SERVICE_HOSTS=x",
		"DUEWHEEL_KAFKA_BROKER=kafka:9092", "DUEWHEEL_IMPORT=tcp://10.96.14.7:9464", "DUEWHEEL_PORT_9464_TCP_NAME=x",
	} {
		name, _, _ := strings.Cut(entry, "=")
		_, problems := judge(t, sources{File: writeFile(t, "duewheel.yaml", smallest), Env: []string{entry}})
		if len(problems) != 1 || !strings.HasPrefix(problems[0], "unknown environment variable "+name) {
			t.Errorf("%s: problems %q", entry, problems)
		}
	}
}

// No setting has a name that is passed over, whatever its value and its place in a list.
func TestNoSettingIsNamedAsAService(t *testing.T) {
	all := names()
	if len(all) < 80 || !slices.Contains(all, "routes.N.retry.backoff.max") {
		t.Errorf("%d settings are not all", len(all))
	}
	for _, name := range all {
		env := strings.Replace(envName(name), "ROUTES_N_", "ROUTES_0_", 1)
		if isOfService(env, "9464") || isOfService(env, "tcp://10.96.14.7:9464") {
			t.Errorf("%s is passed over: %s", name, env)
		}
	}
}
