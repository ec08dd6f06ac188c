package main

import (
	"regexp"
	"strings"

	"github.com/duewheel/duewheel/processor/setting"
)

// keys are all settings: the file, the environment, the flags and the messages about unknown names go by them.
var keys = setting.Of[settings]()

var listPlace = regexp.MustCompile(`\.(\d+)\b`)

// general is a path with an N for every place in a list, as keys spells it.
func general(path string) string { return listPlace.ReplaceAllString(path, ".N") }

// shown is a path as people write it: routes[0].topic.
func shown(path string) string {
	return strings.ReplaceAll(listPlace.ReplaceAllString(path, "[$1]"), ".N", "[N]")
}

// pathOf is the path of what people write.
func pathOf(name string) string {
	return strings.NewReplacer("[", ".", "]", "").Replace(strings.TrimSpace(name))
}

// envName is the environment's name for a path.
func envName(path string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// names are all paths that can be set, those of secrets' files too.
func names() []string {
	var all []string
	for _, k := range keys {
		all = append(all, k.Key)
		if k.Secret {
			all = append(all, k.Key+"_file")
		}
	}
	return all
}

// isSection reports whether keys lie below a path.
func isSection(path string) bool {
	for _, k := range keys {
		if strings.HasPrefix(k.Key, path+".") {
			return true
		}
	}
	return false
}
