package setting

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A value comes as what YAML made of it, or as text from the environment and the flags. The
// functions here accept both.

// Text takes what is written as one word, and numbers that YAML did not leave as text.
func Text(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case int, int64, uint64, float64, bool:
		return fmt.Sprint(v), nil
	}
	return "", errors.New("a list or a section stands where one value belongs")
}

// Int takes a whole number.
func Int(v any) (int, error) {
	s, err := Text(v)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number", s)
	}
	return n, nil
}

// Number takes a decimal number.
func Number(v any) (float64, error) {
	s, err := Text(v)
	if err != nil {
		return 0, err
	}
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, fmt.Errorf("%q is not a number", s)
	}
	return f, nil
}

// Bool takes true or false.
func Bool(v any) (bool, error) {
	if b, ok := v.(bool); ok {
		return b, nil
	}
	s, err := Text(v)
	if err != nil {
		return false, err
	}
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("%q is not true or false", s)
}

// List takes a list, or text with commas between the items.
func List(v any) ([]string, error) {
	var items []string
	if list, ok := v.([]any); ok {
		for _, item := range list {
			s, err := Text(item)
			if err != nil {
				return nil, err
			}
			items = append(items, s)
		}
	} else {
		s, err := Text(v)
		if err != nil {
			return nil, err
		}
		items = strings.Split(s, ",")
	}
	kept := items[:0]
	for _, item := range items {
		if item = strings.TrimSpace(item); item != "" {
			kept = append(kept, item)
		}
	}
	return kept, nil
}

var durationPart = regexp.MustCompile(`^(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h|d|w)`)

var durationUnits = map[string]time.Duration{
	"ns": 1, "us": time.Microsecond, "µs": time.Microsecond, "ms": time.Millisecond, "s": time.Second,
	"m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour,
}

// Duration takes Go's durations, and days and weeks: 250ms, 1h30m, 366d. A number without a unit
// is refused, since it means another unit in each tool.
func Duration(v any) (time.Duration, error) {
	s, err := Text(v)
	if err != nil {
		return 0, err
	}
	rest := strings.TrimSpace(s)
	if _, err := strconv.ParseFloat(rest, 64); err == nil && rest != "0" {
		return 0, fmt.Errorf("%s has no unit: write %[1]sms, %[1]ss or the like (a number alone is ms in the header delay-for only)", rest)
	}
	if rest == "0" {
		return 0, nil
	}
	bad := fmt.Errorf("%q is not a duration such as 250ms, 10s, 1h30m or 7d", s)
	switch {
	case rest == "":
		return 0, bad
	case rest[0] == '-':
		return 0, fmt.Errorf("%q is negative", s)
	}
	var sum float64
	for rest != "" {
		m := durationPart.FindStringSubmatch(rest)
		if m == nil {
			return 0, bad
		}
		n, _ := strconv.ParseFloat(m[1], 64)
		sum += n * float64(durationUnits[m[2]])
		rest = rest[len(m[0]):]
	}
	if sum >= math.MaxInt64 {
		return 0, bad
	}
	return time.Duration(sum), nil
}

var sizeForm = regexp.MustCompile(`^(\d+(?:\.\d+)?)\s*([A-Za-z]*)$`)

var sizeUnits = map[string]float64{
	"": 1, "b": 1,
	"k": 1 << 10, "kib": 1 << 10, "kb": 1e3,
	"m": 1 << 20, "mib": 1 << 20, "mb": 1e6,
	"g": 1 << 30, "gib": 1 << 30, "gb": 1e9,
	"t": 1 << 40, "tib": 1 << 40, "tb": 1e12,
}

// Size takes bytes, or a number with a unit: 256MiB, 1GiB, 500MB.
func Size(v any) (int64, error) {
	s, err := Text(v)
	if err != nil {
		return 0, err
	}
	m := sizeForm.FindStringSubmatch(strings.TrimSpace(s))
	if m == nil {
		return 0, fmt.Errorf("%q is not a size such as 256MiB or 1GiB", s)
	}
	unit, ok := sizeUnits[strings.ToLower(m[2])]
	n, _ := strconv.ParseFloat(m[1], 64)
	if !ok || n*unit >= math.MaxInt64 {
		return 0, fmt.Errorf("%q is not a size such as 256MiB or 1GiB", s)
	}
	return int64(n * unit), nil
}
