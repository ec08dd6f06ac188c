package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Result is one line of the table.
type Result struct {
	Case     string  `json:"case"`
	What     string  `json:"what"`     // what was measured, in full
	Measured string  `json:"measured"` // for people
	Figures  Figures `json:"figures"`  // for programs; names end in the unit
	Goal     string  `json:"goal"`
	Met      bool    `json:"met"`
	Compare  string  `json:"compare,omitempty"` // what others reach
	Checked  string  `json:"checked"`           // what the checker says
}

// judge fills in the goal of the case and whether it was met.
func (r *Result) judge() {
	g := goals[r.Case]
	r.Goal, r.Met, r.Compare = g.text, g.met(r.Figures), g.compare
}

func (r *Result) met() string {
	if r.Met {
		return "yes"
	}
	return "no"
}

// WriteTable writes results as a table for a terminal, and below it what was measured.
func WriteTable(w io.Writer, results []Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CASE\tMEASURED\tGOAL\tMET")
	for _, r := range results {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", r.Case, r.Measured, r.Goal, r.met())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range results {
		if _, err := fmt.Fprintf(w, "\n%s: %s\n  Checked: %s.\n", r.Case, r.What, r.Checked); err != nil {
			return err
		}
	}
	return nil
}

// WriteJSON writes where it was measured, and the results.
func WriteJSON(w io.Writer, where Where, results []Result) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(struct {
		Where
		Results []Result `json:"results"`
	}{where, append([]Result{}, results...)})
}

// Markdown is the table for a document: what was measured follows it, and where.
func Markdown(where Where, results []Result) string {
	var b strings.Builder
	b.WriteString("| case | measured | goal | met | others, on two cores |\n|---|---|---|---|---|\n")
	for _, r := range results {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", cell(r.Case), cell(r.Measured), cell(r.Goal), r.met(), cell(r.Compare))
	}
	fmt.Fprintf(&b, "\n%s What is measured:\n\n", where)
	for _, r := range results {
		fmt.Fprintf(&b, "- **%s**: %s Checked: %s.\n", r.Case, r.What, r.Checked)
	}
	return b.String()
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
