package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// login is what a sasl.jaas.config says.
type login struct {
	mechanism          string // empty: the module leaves it open, as SCRAM's does
	username, password string
}

var errJAAS = errors.New(`not of the form "<login module> required username=\"…\" password=\"…\";"`)

var className = regexp.MustCompile(`^[A-Za-z]\w*LoginModule$`)

// parseJAAS reads one entry of the Java client's sasl.jaas.config. No error quotes it: it holds a
// password.
func parseJAAS(config string) (login, error) {
	words, err := jaasWords(config)
	if err != nil {
		return login{}, err
	}
	if len(words) < 2 {
		return login{}, errJAAS
	}
	var l login
	module := words[0][strings.LastIndexByte(words[0], '.')+1:]
	switch module {
	case "PlainLoginModule":
		l.mechanism = "PLAIN"
	case "ScramLoginModule":
	default:
		if !className.MatchString(module) {
			return login{}, errJAAS
		}
		return login{}, fmt.Errorf("login module %s is not supported: PlainLoginModule and ScramLoginModule are", module)
	}
	for _, option := range words[2:] {
		name, v, ok := strings.Cut(option, "=")
		switch {
		case !ok:
			return login{}, errJAAS
		case name == "username":
			l.username = v
		case name == "password":
			l.password = v
		}
	}
	if l.username == "" {
		return login{}, errors.New("no username in it")
	}
	return l, nil
}

// jaasWords splits an entry at white space up to its semicolon; quotes keep white space and
// semicolons, a backslash in them keeps the next character.
func jaasWords(config string) ([]string, error) {
	var words []string
	var word strings.Builder
	var quote rune
	inWord, escaped := false, false
	end := func() {
		if inWord {
			words = append(words, word.String())
			word.Reset()
			inWord = false
		}
	}
	for _, c := range config {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case quote != 0 && c == '\\':
			escaped = true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '"' || c == '\'':
			quote, inWord = c, true
		case c == ';':
			end()
			return words, nil
		case strings.ContainsRune(" \t\r\n", c):
			end()
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	return nil, errJAAS
}
