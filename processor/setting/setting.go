// Package setting declares what a person can set, once: as a field of a struct, whose tags and comment say the rest.
//
//	type Config struct {
//		// Lanes is the number of group members in this process.
//		Lanes int `key:"lanes" default:"1" min:"1" max:"64"`
//	}
//
// Keys of files, variables and flags, defaults, bounds, messages and docs/configuration.md all come from there. The tags:
//
//	key      the path below which files, variables and flags set the field; of a struct, what its fields' paths begin with
//	default  its value when nothing is said
//	unset    what holds when nothing is said and that is not one value; in words
//	empty    of a list that is not empty when nothing is said: what to write where it is to be
//	min max  bounds, both within
//	words    the only values, with spaces between them
//	secret   true: a file may hold the value, whose name is set as the key and _file
//
// A list of structs has an N in the paths of its fields, for the place in the list. An int64 is a number of bytes. A type that is written
// in a way of its own is a [Parser].
//
// The package keeps nothing: its functions may be called from several goroutines.
package setting

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Setting is one thing that can be set.
type Setting struct {
	Key     string // the path; an N stands for a place in a list
	Default string // "" when there is none, or not one
	Unset   string // what holds without a value, where Default is ""
	Empty   string // what to write for an empty list, where an empty one is no value
	Min     string
	Max     string
	Words   []string
	Secret  bool
	Struct  string // the type that declares it, and which of its fields it is
	Field   string

	list  []int // where the list is of which the field is one of each item; nil: there is none
	index []int // where the field is: in the struct, or in the item
}

// Parser is a type that is written in a way of its own. Parse takes what YAML made of a value, or text.
type Parser interface{ Parse(v any) error }

// Of are the settings that a struct declares, in the order of its fields.
func Of[T any]() []Setting { return of(reflect.TypeFor[T](), "", nil, nil) }

func of(t reflect.Type, prefix string, list, index []int) (all []Setting) {
	for i := range t.NumField() {
		f := t.Field(i)
		key, has := f.Tag.Lookup("key")
		at := append(index[:len(index):len(index)], i)
		switch {
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			all = append(all, of(f.Type, prefix, list, at)...)
		case !has:
		case f.Type.Kind() == reflect.Struct:
			all = append(all, of(f.Type, prefix+key+".", list, at)...)
		case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
			all = append(all, of(f.Type.Elem(), prefix+key+".N.", at, nil)...)
		default:
			all = append(all, Setting{
				Key: prefix + key, Default: f.Tag.Get("default"), Unset: f.Tag.Get("unset"), Empty: f.Tag.Get("empty"), Min: f.Tag.Get("min"), Max: f.Tag.Get("max"),
				Words: strings.Fields(f.Tag.Get("words")), Secret: f.Tag.Get("secret") == "true",
				Struct: t.Name(), Field: f.Name, list: list, index: at,
			})
		}
	}
	return all
}

// field is the setting's field in a struct; place is the place in a list.
func (s *Setting) field(in reflect.Value, place int) reflect.Value {
	if s.list != nil {
		in = in.FieldByIndex(s.list).Index(place)
	}
	return in.FieldByIndex(s.index)
}

// Set parses a value into the struct that in points to. A 0 that would mean the same as to say nothing is refused, and so is a list that
// would be taken for the default although it is empty.
func (s *Setting) Set(in any, place int, v any) error {
	to := s.field(reflect.ValueOf(in).Elem(), place)
	parsed := reflect.New(to.Type())
	if err := s.parse(parsed.Interface(), v); err != nil {
		return err
	}
	if parsed.Elem().IsZero() && parsed.Elem().CanInt() && len(s.Words) == 0 && s.Default != "0" {
		return s.zero()
	}
	if s.Empty != "" && parsed.Elem().Len() == 0 {
		return fmt.Errorf("an empty list is no value: write %s, or leave it out for %s", s.Empty, s.Unset)
	}
	to.Set(parsed.Elem())
	return nil
}

func (s *Setting) zero() error {
	if s.Default+s.Unset == "" {
		return errors.New("0 is no value: leave it out")
	}
	return fmt.Errorf("0 is no value: leave it out for the default, %s", s.Default+s.Unset)
}

// parse sets what to points at.
func (s *Setting) parse(to, v any) (err error) {
	switch to := to.(type) {
	case Parser:
		return to.Parse(v)
	case *time.Duration:
		*to, err = Duration(v)
	case *int:
		*to, err = Int(v)
	case *int64:
		*to, err = Size(v)
	case *bool:
		*to, err = Bool(v)
	case **bool:
		var b bool
		b, err = Bool(v)
		*to = &b
	case **float64:
		var f float64
		f, err = Number(v)
		*to = &f
	case *[]string:
		*to, err = List(v)
	default:
		return s.parseText(to, v)
	}
	return err
}

func (s *Setting) parseText(to, v any) error {
	text, err := Text(v)
	if err == nil && len(s.Words) > 0 {
		text, err = oneOf(text, s.Words)
	}
	if err != nil {
		return err
	}
	if to, ok := to.(encoding.TextUnmarshaler); ok {
		return to.UnmarshalText([]byte(text))
	}
	reflect.ValueOf(to).Elem().SetString(text)
	return nil
}

func oneOf(text string, words []string) (string, error) {
	for _, word := range words {
		if strings.EqualFold(text, word) {
			return word, nil
		}
	}
	return "", fmt.Errorf("%q is not one of %s", text, strings.Join(words, ", "))
}

// Fill gives every field that is zero its default, in the struct that in points to. Lists stay as they are.
func Fill(in any) {
	v := reflect.ValueOf(in).Elem()
	for _, s := range of(v.Type(), "", nil, nil) {
		if s.Default == "" || s.list != nil || !s.field(v, 0).IsZero() {
			continue
		}
		if err := s.Set(in, 0, s.Default); err != nil {
			panic(fmt.Sprintf("setting: BUG: default of %s: %v", s.Key, err))
		}
	}
}

// Given are the keys of the fields of a struct that are not zero: something was said of them. Lists of structs are left out.
func Given(in any) (keys []string) {
	v := reflect.ValueOf(in)
	for _, s := range of(v.Type(), "", nil, nil) {
		if s.list == nil && !s.field(v, 0).IsZero() {
			keys = append(keys, s.Key)
		}
	}
	return keys
}

// Outside is a setting whose value is not one that it may have.
type Outside struct {
	Setting
	Value any
	May   string // what it may be: a range, or words
}

// Check returns the settings of a struct whose values are outside their bounds. Lists are not looked at.
func Check(in any) (all []Outside) {
	v := reflect.Indirect(reflect.ValueOf(in))
	for _, s := range of(v.Type(), "", nil, nil) {
		if s.list == nil && !s.holds(s.field(v, 0)) {
			all = append(all, Outside{s, s.field(v, 0).Interface(), s.May()})
		}
	}
	return all
}

// May says which values a setting may have; "" for any.
func (s *Setting) May() string {
	switch {
	case len(s.Words) > 0:
		last := len(s.Words) - 1
		return strings.Join(s.Words[:last], ", ") + " or " + s.Words[last]
	case s.Min != "" && s.Max != "":
		return s.Min + " to " + s.Max
	case s.Min != "":
		return "at least " + s.Min
	}
	return ""
}

func (s *Setting) holds(v reflect.Value) bool {
	if v.Kind() == reflect.String && len(s.Words) > 0 {
		word, err := oneOf(v.String(), s.Words)
		return err == nil && word == v.String()
	}
	if s.Unset != "" && v.IsZero() {
		return true // nothing was said
	}
	return (s.Min == "" || v.Int() >= s.bound(v.Type(), s.Min)) && (s.Max == "" || v.Int() <= s.bound(v.Type(), s.Max))
}

func (s *Setting) bound(t reflect.Type, text string) int64 {
	b := reflect.New(t)
	if err := s.parse(b.Interface(), text); err != nil {
		panic(fmt.Sprintf("setting: BUG: bound of %s: %v", s.Key, err))
	}
	return b.Elem().Int()
}
