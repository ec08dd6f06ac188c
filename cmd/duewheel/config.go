package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/knadh/koanf/maps"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"

	"github.com/duewheel/duewheel/processor/setting"
)

const (
	envPrefix = "DUEWHEEL_"
	// envForTests begins variables that steer the tests of the project. They are no settings.
	envForTests = "DUEWHEEL_TEST_"
	// envFile names the file with settings where -c does not.
	envFile = "DUEWHEEL_CONFIG"
	// maxRoutes bounds the place that a path may name, so that a slip cannot ask for a billion.
	maxRoutes = 1000
)

// sources is where settings come from, in rising order: what a later one says counts.
type sources struct {
	File          string
	Env           []string // NAME=value, as os.Environ gives them
	CommandConfig string   // a client.properties
	X             []string // name=value
	Flags         map[string]any
}

// loader puts the layers together and keeps every problem for the end.
type loader struct {
	merged *koanf.Koanf
	origin map[string]string // by path: how a message names the place of a value
	unread map[string]bool   // see settings
	// secrets says in which files those secrets lie that come from one.
	secrets map[string]secretFile
	// emptyRetry has the routes of the file that have a section for retries in which nothing is said, and how a message names it.
	emptyRetry map[string]string
	// saidList: it has been said that routes is a list.
	saidList bool
	errs     []error
}

// load reads every source and returns what they say together. The error holds every problem, one
// a line; the settings are usable as far as they were understood.
func load(src sources) (settings, error) {
	l := newLoader()
	l.loadFile(src.File)
	l.loadEnv(src.Env)
	l.loadCommandConfig(src.CommandConfig)
	l.loadX(src.X)
	l.add(src.Flags, func(path string) string { return shown(path) })
	l.checkRetry()
	s := l.settings()
	if len(l.unread) > 0 {
		s.unread = l.unread
	}
	if len(l.secrets) > 0 {
		s.secrets = l.secrets
	}
	return s, errors.Join(l.errs...)
}

func newLoader() *loader {
	return &loader{merged: koanf.New("."), origin: map[string]string{}, unread: map[string]bool{}, secrets: map[string]secretFile{}, emptyRetry: map[string]string{}}
}

func (l *loader) bad(format string, args ...any) {
	l.errs = append(l.errs, fmt.Errorf(format, args...))
}

// misread notes that something was said of keys that could not be understood.
func (l *loader) misread(paths ...string) {
	for _, path := range paths {
		l.unread[general(path)] = true
	}
}

// unknown reports a name that no setting has. Only what advice says may be meant by it is not missing: a name like no other says nothing of any.
func (l *loader) unknown(what, advice string, near ...string) {
	l.bad("%s%s", what, advice)
	if advice != "" {
		l.misread(near...)
	}
}

// add puts a layer of known paths above those before it.
func (l *loader) add(layer map[string]any, origin func(path string) string) {
	for path := range layer {
		l.origin[path] = origin(path)
		delete(l.secrets, strings.TrimSuffix(path, "_file"))
		// A value given here takes the place of one given below in the other form.
		if base, ok := strings.CutSuffix(path, "_file"); ok {
			l.forget(layer, base)
		} else {
			l.forget(layer, path+"_file")
		}
	}
	if err := l.merged.Load(confmap.Provider(layer, "."), nil); err != nil {
		l.bad("put settings together: %w", err)
	}
}

func (l *loader) forget(layer map[string]any, path string) {
	if _, both := layer[path]; !both && slices.Contains(names(), path) {
		l.merged.Delete(path)
	}
}

func (l *loader) loadFile(path string) {
	if path == "" {
		return
	}
	name := filepath.Base(path)
	k := koanf.New(".")
	if err := k.Load(file.Provider(path), fileParser{}); err != nil {
		var pathError *os.PathError
		if errors.As(err, &pathError) {
			l.bad("read configuration: %w", err)
		} else {
			l.bad("%s: %s", name, explainYAML(path, err))
		}
		l.misread(names()...)
		return
	}
	raw := k.Raw()
	if routes, ok := raw["routes"].([]any); ok {
		raw["routes"] = byPlace(routes)
	}
	flat, _ := maps.Flatten(raw, nil, ".")
	layer := map[string]any{}
	for _, path := range sorted(flat) {
		v := flat[path]
		if m, ok := v.(map[string]any); isSection(general(path)) && (v == nil || ok && len(m) == 0) {
			l.saysNothing(name, path)
			continue
		}
		if !l.known(path, name+": ") {
			continue
		}
		if v == nil {
			l.saysNothing(name, path)
			continue
		}
		expanded, err := expandAll(v)
		if err != nil {
			l.bad("%s: %s: %w", name, shown(path), err)
			l.misread(path)
			continue
		}
		layer[path] = expanded
	}
	l.add(layer, func(path string) string { return name + ": " + shown(path) })
}

// saysNothing notes a section, or a key, without a value.
func (l *loader) saysNothing(file, path string) {
	if section := retrySection.FindString(path); section != "" {
		l.emptyRetry[section] = file + ": " + shown(section)
	}
}

var retrySection = regexp.MustCompile(`^routes\.\d+\.retry\b`)

// checkRetry refuses a section for retries in which nothing is said: its route would not be one for retries.
func (l *loader) checkRetry() {
	all := l.merged.All()
	for _, section := range sorted(l.emptyRetry) {
		if !slices.ContainsFunc(sorted(all), func(path string) bool { return strings.HasPrefix(path, section+".") }) {
			l.bad("%s is empty, so the route is not one for retries: give a key below it, such as max_attempts: 8, or leave it out", l.emptyRetry[section])
		}
	}
}

// byPlace makes a list a section, so that the environment and flags can reach into it.
func byPlace(list []any) map[string]any {
	m := map[string]any{}
	for i, v := range list {
		m[strconv.Itoa(i)] = v
	}
	return m
}

func expandAll(v any) (any, error) {
	switch v := v.(type) {
	case string:
		return expand(v, os.LookupEnv)
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			var err error
			if out[i], err = expandAll(item); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return v, nil
}

// known reports whether a path can be set, and notes the nearest one when it cannot.
func (l *loader) known(path, where string) bool {
	g := general(path)
	switch {
	case slices.Contains(names(), g):
		return l.placeInRange(path, where)
	case isSection(g):
		var below []string
		for _, name := range names() {
			if strings.HasPrefix(name, g+".") {
				below = append(below, name[len(g)+1:])
				l.misread(name)
			}
		}
		l.bad("%s%s holds keys of its own: %s", where, shown(path), strings.Join(below, ", "))
	case strings.HasPrefix(g, "routes.") && !strings.HasPrefix(g, "routes.N"):
		l.misread(routeNames()...)
		if !l.saidList {
			l.bad("%sroutes is a list: each route begins with a dash, as in - topic: delay-requests", where)
		}
		l.saidList = true
	case keyAbove(g) != "":
		l.misread(keyAbove(g))
		l.bad("%s%s has a value, and no keys below it such as %s", where, shown(keyAbove(path)), lastPart(path))
	default:
		near := nearest(g, names())
		l.unknown(where+"unknown key "+shown(path), advice(g, near, shown(near)), near)
	}
	return false
}

// keyAbove is the key that a path lies below, if there is one.
func keyAbove(path string) string {
	for i := range path {
		if path[i] == '.' && slices.Contains(names(), general(path[:i])) {
			return path[:i]
		}
	}
	return ""
}

func routeNames() []string {
	return slices.DeleteFunc(names(), func(name string) bool { return !strings.HasPrefix(name, "routes.") })
}

// explainYAML says in one line what is wrong with a file that is not YAML, or not a set of keys.
func explainYAML(path string, err error) string {
	if errors.Is(err, errDocuments) {
		return err.Error()
	}
	said := strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors:\n  "), "\n  ", "; ")
	if strings.Contains(said, "cannot unmarshal") {
		return "it holds no keys; the first lines of a file are kafka: and below it, indented, brokers: [127.0.0.1:9092]"
	}
	if b, _ := os.ReadFile(path); tabIndent.Match(b) {
		said += " (a line is indented with a tab: YAML wants spaces)"
	}
	return "not YAML: " + said
}

var tabIndent = regexp.MustCompile(`(?m)^ *\t`)

func (l *loader) placeInRange(path, where string) bool {
	if m := listPlace.FindStringSubmatch(path); m != nil {
		if n, err := strconv.Atoi(m[1]); err != nil || n >= maxRoutes {
			l.bad("%s%s: there is room for %d routes", where, shown(path), maxRoutes)
			return false
		}
	}
	return true
}

// ofService are the variables that Kubernetes sets in each container for each Service of its namespace, if the name of the Service begins
// with duewheel: DUEWHEEL_SERVICE_HOST, DUEWHEEL_METRICS_PORT_9464_TCP_ADDR. They are no settings.
var ofService = regexp.MustCompile(`^` + envPrefix + `([A-Z0-9_]+_)?(SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// isOfService tells them by their names, and DUEWHEEL_PORT by its value, too: DUEWHEEL_ADMIN_PORT=9464 is a mistake of a person.
func isOfService(name, v string) bool {
	return ofService.MatchString(name) || portOfService.MatchString(name+"="+v)
}

var portOfService = regexp.MustCompile(`^` + envPrefix + `([A-Z0-9_]+_)?PORT=(tcp|udp|sctp)://`)

var envPlace = regexp.MustCompile(`^` + envPrefix + `ROUTES_(\d+)_`)

// loadEnv takes DUEWHEEL_ variables. An empty one counts as not set, as containers leave them.
func (l *loader) loadEnv(env []string) {
	paths := map[string]string{}
	for _, name := range names() {
		paths[envName(name)] = name
	}
	layer := map[string]any{}
	for _, entry := range slices.Sorted(slices.Values(env)) {
		name, v, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, envPrefix) || strings.HasPrefix(name, envForTests) || name == envFile || isOfService(name, v) || v == "" {
			continue
		}
		place := envPlace.FindStringSubmatch(name)
		general := envPlace.ReplaceAllString(name, envPrefix+"ROUTES_N_")
		path, ok := paths[general]
		if !ok {
			near := nearest(general, sorted(paths))
			l.unknown("unknown environment variable "+name, advice(strings.TrimPrefix(general, envPrefix), strings.TrimPrefix(near, envPrefix), near), paths[near])
			continue
		}
		if place != nil {
			path = strings.Replace(path, ".N.", "."+place[1]+".", 1)
		}
		if l.placeInRange(path, "") {
			layer[path] = v
		}
	}
	l.add(layer, envName)
}

// settings turns the merged text into values.
func (l *loader) settings() settings {
	var s settings
	for _, path := range l.merged.Keys() {
		if m := listPlace.FindStringSubmatch(path); m != nil {
			n, _ := strconv.Atoi(m[1])
			s.Routes = append(s.Routes, make([]routeSettings, max(0, n+1-len(s.Routes)))...)
		}
	}
	all := l.merged.All()
	for _, k := range keys {
		for _, path := range sorted(all) {
			if v, ok := l.value(k, path, all); ok {
				if err := k.Set(&s, place(path), v); err != nil {
					l.misread(path)
					l.bad("%s: %w", l.origin[path], err)
				}
			}
		}
	}
	return s
}

// value returns what path says for key k, if path belongs to k: itself, or the file that holds it.
func (l *loader) value(k setting.Setting, path string, all map[string]any) (any, bool) {
	g := general(path)
	if g == k.Key {
		return all[path], true
	}
	if !k.Secret || g != k.Key+"_file" {
		return nil, false
	}
	if _, both := all[strings.TrimSuffix(path, "_file")]; both {
		l.misread(k.Key)
		l.bad("%s: both the value and the file that holds it are given", l.origin[path])
		return nil, false
	}
	var secret string
	name, err := setting.Text(all[path])
	if err == nil {
		secret, err = readSecret(name)
		l.keepSecret(k.Key, secretFile{path: name})
	}
	if err != nil {
		l.misread(k.Key)
		l.bad("%s: %w", l.origin[path], err)
		return nil, false
	}
	return secret, true
}

// place is the place in a list that a path names.
func place(path string) int {
	if m := listPlace.FindStringSubmatch(path); m != nil {
		n, _ := strconv.Atoi(m[1])
		return n
	}
	return 0
}

func sorted[V any](m map[string]V) []string {
	all := make([]string, 0, len(m))
	for name := range m {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}
