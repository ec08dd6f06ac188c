package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// manifest is what is looked at of an object of deploy/kubernetes.yaml.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		ServiceName         string `yaml:"serviceName"`
		PodManagementPolicy string `yaml:"podManagementPolicy"`
		Selector            any
		Ports               []struct {
			Port       int
			TargetPort string `yaml:"targetPort"`
		}
		Template struct {
			Spec struct {
				Grace      int `yaml:"terminationGracePeriodSeconds"`
				Containers []container
				Volumes    []struct {
					Name      string
					ConfigMap struct{ Name string } `yaml:"configMap"`
				}
			}
		}
		Claims []struct{ Metadata struct{ Name string } } `yaml:"volumeClaimTemplates"`
	}
}

type container struct {
	Args []string
	Env  []struct{ Name string }

	Ports []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	Liveness  probe `yaml:"livenessProbe"`
	Readiness probe `yaml:"readinessProbe"`
	Resources struct{ Limits struct{ Memory, CPU string } }
	Mounts    []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

func manifests(t *testing.T) map[string]manifest {
	t.Helper()
	text, err := os.ReadFile("../../deploy/kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]manifest{}
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var m manifest
		if err := decoder.Decode(&m); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[m.Kind] = m
	}
}

// The manifest runs what this program is: its settings are good, and say the same as the pod around them.
func TestManifest(t *testing.T) {
	all := manifests(t)
	if got, want := slices.Sorted(maps.Keys(all)), []string{"ConfigMap", "NetworkPolicy", "PodDisruptionBudget", "Service", "StatefulSet"}; !slices.Equal(got, want) {
		t.Fatalf("objects %v, want %v", got, want)
	}
	set := all["StatefulSet"].Spec
	pod := set.Template.Spec
	c := pod.Containers[0]
	var env []string
	for _, e := range c.Env {
		env = append(env, e.Name+"=duewheel-0")
	}
	config := all["ConfigMap"]
	s, problems := judge(t, sources{File: writeFile(t, "duewheel.yaml", config.Data["duewheel.yaml"]), Env: env})
	if problems != nil {
		t.Fatalf("problems %q", problems)
	}
	mounts := map[string]string{}
	for _, m := range c.Mounts {
		mounts[m.Name] = m.MountPath
	}
	for _, is := range []struct {
		what      string
		got, want any
	}{
		{"member of the group", s.InstanceID, "duewheel-0"},
		{"arguments", fmt.Sprint(c.Args), fmt.Sprint([]string{"run", "-c", mounts["config"] + "/duewheel.yaml"})},
		{"state directory", s.StateDir, mounts["state"]},
		{"claim of the state directory", set.Claims[0].Metadata.Name, "state"},
		{"volume of the settings", pod.Volumes[0].Name + " " + pod.Volumes[0].ConfigMap.Name, "config " + config.Metadata.Name},
		{"admin port", string(s.AdminListen), fmt.Sprintf(":%d", c.Ports[0].ContainerPort)},
		{"port of the service", all["Service"].Spec.Ports[0].Port, c.Ports[0].ContainerPort},
		{"service", set.ServiceName, all["Service"].Metadata.Name},
		{"liveness", c.Liveness.HTTPGet, struct{ Path, Port string }{"/livez", c.Ports[0].Name}},
		{"readiness", c.Readiness.HTTPGet, struct{ Path, Port string }{"/readyz", c.Ports[0].Name}},
		{"memory", c.Resources.Limits.Memory, fmt.Sprintf("%dMi", s.MemoryBudget>>20+256)},
		{"no limit of CPU", c.Resources.Limits.CPU, ""},
		{"pods start together", set.PodManagementPolicy, "Parallel"},
		{"there is time to end", time.Duration(pod.Grace)*time.Second >= 2*s.ShutdownTimeout, true},
		{"a restart is not noticed", s.SessionTimeout > s.ShutdownTimeout, true},
	} {
		if is.got != is.want {
			t.Errorf("%s is %v, want %v", is.what, is.got, is.want)
		}
	}
}

// What is alerted on is there.
func TestAlerts(t *testing.T) {
	text, err := os.ReadFile("../../deploy/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, rule := range file.Groups[0].Rules {
		names := regexp.MustCompile(`duewheel_\w+`).FindAllString(rule.Expr, -1)
		if len(names) == 0 || seen[rule.Alert] {
			t.Errorf("%s has no metric of ours, or is there twice", rule.Alert)
		}
		seen[rule.Alert] = true
		for _, name := range names {
			name = strings.TrimSuffix(name, "_bucket")
			row := regexp.MustCompile("(?m)^\\| `" + name + "(?:\\{([a-z,]*)\\})?` ").FindSubmatch(metrics)
			if row == nil {
				t.Errorf("%s: there is no metric %s", rule.Alert, name)
				continue
			}
			for _, by := range regexp.MustCompile(`by \(([a-z, ]*)\)`).FindAllStringSubmatch(rule.Expr, -1) {
				for label := range strings.SplitSeq(by[1], ", ") {
					if label != "le" && label != "instance" && !slices.Contains(strings.Split(string(row[1]), ","), label) {
						t.Errorf("%s: %s has no label %s", rule.Alert, name, label)
					}
				}
			}
		}
	}
}

// The image has the program, which runs as nobody, with a state directory of its own.
func TestDockerImage(t *testing.T) {
	if os.Getenv("DUEWHEEL_TEST_KAFKA") != "docker" {
		t.Skip("make docker runs it")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	name := fmt.Sprintf("duewheel-test:%d", os.Getpid())
	command := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir = filepath.Join("..", "..")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
		}
		return string(out)
	}
	command("make", "image", "IMAGE="+name)
	t.Cleanup(func() { exec.Command("docker", "rmi", "-f", name).Run() })
	if out := command("docker", "run", "--rm", "--network", "host", name, "version"); !strings.Contains(out, "linux/") {
		t.Errorf("version says %q", out)
	}
	run := exec.CommandContext(ctx, "docker", "run", "--rm", "--network", "host", "-e", "DUEWHEEL_GROUP_ID=g", "-e", "DUEWHEEL_ROUTES_0_TOPIC=d", "-e", "DUEWHEEL_ROUTES_0_TARGETS_ALLOW=orders",
		"-e", "DUEWHEEL_ADMIN_LISTEN=127.0.0.1:0", name, "run", "-X", "bootstrap.servers=127.0.0.1:1", "-X", "shutdown_timeout=1s")
	out, err := run.StderrPipe()
	if err == nil {
		err = run.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { run.Process.Signal(os.Interrupt); run.Wait() })
	said := bufio.NewScanner(out)
	said.Scan()
	if !strings.Contains(said.Text(), "state=duewheel-state/0 ") {
		t.Errorf("it says %q, and not that its state is in a directory of the image", said.Text())
	}
}
