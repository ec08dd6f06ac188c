package main

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The reference of look ahead has each field that ls prints as JSON, and no other.
func TestReferenceOfPendingRows(t *testing.T) {
	b, err := os.ReadFile("../../docs/look-ahead.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(b), "\n| field | |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	said := map[string]bool{}
	for _, found := range regexp.MustCompile("`([a-z0-9_]+)`").FindAllStringSubmatch(table, -1) {
		said[found[1]] = true
	}
	for _, state := range []string{"pending", "overdue", "late", "arriving"} {
		if !said[state] {
			t.Errorf("it does not name the state %s", state)
		}
		delete(said, state)
	}
	is := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[pendingRow]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			is[name] = true
		}
	}
	if !maps.Equal(said, is) {
		t.Errorf("documented are %v, and there are %v", slices.Sorted(maps.Keys(said)), slices.Sorted(maps.Keys(is)))
	}
}

// It has each field of get that ls does not have, too.
func TestReferenceOfRecordRows(t *testing.T) {
	b, err := os.ReadFile("../../docs/look-ahead.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(b), "\n| field of `get` | |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	said := map[string]bool{}
	for _, found := range regexp.MustCompile("`([a-z0-9_]+)`").FindAllStringSubmatch(table, -1) {
		said[found[1]] = true
	}
	named := func(is reflect.Type) map[string]bool {
		all := map[string]bool{}
		for _, f := range reflect.VisibleFields(is) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
				all[name] = true
			}
		}
		return all
	}
	is := named(reflect.TypeFor[recordRow]())
	maps.Copy(is, named(reflect.TypeFor[readHeaderRow]()))
	of := named(reflect.TypeFor[pendingRow]())
	for name := range of {
		if left := name == "size" || name == "id" || name == "id_base64"; left == is[name] {
			t.Errorf("%s: get has it: %v", name, is[name])
		}
		delete(is, name)
	}
	if !maps.Equal(said, is) {
		t.Errorf("documented are %v, and there are %v", slices.Sorted(maps.Keys(said)), slices.Sorted(maps.Keys(is)))
	}
}
