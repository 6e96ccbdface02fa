package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/bench/driver"
	"github.com/kindwright/kindwright/bench/load"
	"github.com/kindwright/kindwright/bench/process"
	"github.com/kindwright/kindwright/bench/server"
)

// report holds all results.
type report struct {
	Command string          `json:"command"`
	Machine process.Machine `json:"machine"`
	Results []result        `json:"results"`
	Summary []summary       `json:"summary"`
}

// result is one run with one shape.
type result struct {
	Shape string `json:"shape"`
	driver.Result
}

// summary condenses the rounds of one workload on one server.
type summary struct {
	Shape    string `json:"shape"`
	Workload string `json:"workload"`
	Target   string `json:"target"`

	NotServed  string `json:"notServed,omitempty"`
	Rounds     int    `json:"rounds"`
	Errors     int    `json:"errors"`
	FirstError string `json:"firstError,omitempty"`

	// Medians of the rounds, and the range of the main figure.
	ServerCPU      float64            `json:"serverCPUus,omitempty"`
	ServerCPURange [2]float64         `json:"serverCPURange,omitzero"`
	PerSecond      float64            `json:"perSecond,omitempty"`
	P50            float64            `json:"p50us,omitempty"`
	P99            float64            `json:"p99us,omitempty"`
	Figures        map[string]float64 `json:"figures,omitempty"`

	// Ratios holds this server's processor time per operation divided by that of other servers, by
	// their names. Each is the median of the ratios within a round.
	Ratios map[string]float64 `json:"ratios,omitempty"`
}

// line formats one run as a line of progress.
func line(shape string, r driver.Result) string {
	head := fmt.Sprintf("%-10s %-18s %-8s", shape, r.Workload, r.Target)
	if r.NotServed != "" {
		return head + " not served: " + r.NotServed
	}
	text := fmt.Sprintf("%s %8d ops", head, r.Operations)
	if r.PerSecond > 0 {
		text += fmt.Sprintf(" %9.1f/s  server %9.1f us  driver %9.1f us  p50 %8.0f  p99 %8.0f us", r.PerSecond,
			r.ServerCPU, r.DriverCPU, r.P50, r.P99)
	}
	if len(r.Figures) > 0 {
		text += "  " + figures(r.Figures)
	}
	if r.Errors > 0 {
		text += fmt.Sprintf("  ERRORS: %d, first: %s", r.Errors, r.FirstError)
	}
	return text
}

// figures formats figures in the order of their names.
func figures(f map[string]float64) string {
	var out []string
	for name, value := range f {
		out = append(out, fmt.Sprintf("%s=%.4g", name, value))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (r *report) errors() int {
	n := 0
	for _, one := range r.Results {
		n += one.Errors
	}
	return n
}

// summarise condenses the results, keeping their order.
func (r *report) summarise() []summary {
	type key struct{ shape, workload, target string }
	var order []key
	rounds := map[key][]result{}
	for _, one := range r.Results {
		k := key{one.Shape, one.Workload, one.Target}
		if _, known := rounds[k]; !known {
			order = append(order, k)
		}
		rounds[k] = append(rounds[k], one)
	}
	var out []summary
	for _, k := range order {
		s := condense(rounds[k])
		for _, other := range order {
			if other.shape == k.shape && other.workload == k.workload && other.target != k.target {
				if ratio := compare(rounds[k], rounds[other]); ratio > 0 {
					if s.Ratios == nil {
						s.Ratios = map[string]float64{}
					}
					s.Ratios[other.target] = ratio
				}
			}
		}
		out = append(out, s)
	}
	return out
}

func condense(rounds []result) summary {
	s := summary{Shape: rounds[0].Shape, Workload: rounds[0].Workload, Target: rounds[0].Target, Rounds: len(rounds)}
	of := func(f func(result) float64) (all []float64) {
		for _, r := range rounds {
			all = append(all, f(r))
		}
		return all
	}
	cpu := of(func(r result) float64 { return r.ServerCPU })
	s.ServerCPU, s.ServerCPURange = load.Median(cpu), [2]float64{slices.Min(cpu), slices.Max(cpu)}
	s.PerSecond = load.Median(of(func(r result) float64 { return r.PerSecond }))
	s.P50 = load.Median(of(func(r result) float64 { return r.P50 }))
	s.P99 = load.Median(of(func(r result) float64 { return r.P99 }))
	for _, r := range rounds {
		s.Errors += r.Errors
		s.FirstError = cmp.Or(s.FirstError, r.FirstError)
		s.NotServed = cmp.Or(s.NotServed, r.NotServed)
		for name := range r.Figures {
			if s.Figures == nil {
				s.Figures = map[string]float64{}
			}
			s.Figures[name] = load.Median(of(func(r result) float64 { return r.Figures[name] }))
		}
	}
	return s
}

// compare returns the ratio of this server's processor time to another's, or 0 if it is unknown.
func compare(mine, others []result) float64 {
	var ratios []float64
	for _, a := range mine {
		for _, b := range others {
			if a.Round == b.Round && a.ServerCPU > 0 && b.ServerCPU > 0 {
				ratios = append(ratios, a.ServerCPU/b.ServerCPU)
			}
		}
	}
	return load.Median(ratios)
}

// save prints the tables and writes the files.
func (r *report) save(o *options, out io.Writer) error {
	r.Summary = r.summarise()
	text := r.tables()
	_, err := io.WriteString(out, text)
	if o.markdown != "" {
		err = errors.Join(err, os.WriteFile(o.markdown, []byte(text), 0o644))
	}
	if o.json != "" {
		data, encoding := json.MarshalIndent(r, "", " ")
		err = errors.Join(err, encoding)
		if encoding == nil {
			err = errors.Join(err, os.WriteFile(o.json, append(data, '\n'), 0o644))
		}
	}
	return err
}

// tables formats the summary in Markdown: one table per shape, and one for memory.
func (r *report) tables() string {
	var b strings.Builder
	fmt.Fprintf(&b, "`%s`\n\n%s\n", r.Command, r.Machine)
	var shapes []string
	for _, s := range r.Summary {
		if !slices.Contains(shapes, s.Shape) {
			shapes = append(shapes, s.Shape)
		}
	}
	for _, shape := range shapes {
		var timed, sized []summary
		for _, s := range r.Summary {
			switch {
			case s.Shape != shape:
			case strings.HasPrefix(s.Workload, "memory/"):
				sized = append(sized, s)
			default:
				timed = append(timed, s)
			}
		}
		if len(timed) > 0 {
			fmt.Fprintf(&b, "\n### %s\n\n", shape)
			writeTimed(&b, timed)
		}
		if len(sized) > 0 {
			fmt.Fprintf(&b, "\n### %s: memory\n\n", shape)
			writeSized(&b, sized)
		}
	}
	return b.String()
}

func writeTimed(b *strings.Builder, rows []summary) {
	b.WriteString("| workload | server | CPU µs/op (range) | ops/s | p50 µs | p99 µs | × limit | others ÷ it | remarks |\n")
	b.WriteString("|---|---|--:|--:|--:|--:|--:|---|---|\n")
	for _, s := range rows {
		if s.NotServed != "" {
			continue
		}
		times := ""
		if ratio := s.Ratios[string(server.Limit)]; ratio > 0 {
			times = fmt.Sprintf("%.2f", ratio)
		}
		var others []string
		for name, ratio := range s.Ratios {
			if name != string(server.Limit) {
				others = append(others, fmt.Sprintf("%s %.3g", name, 1/ratio))
			}
		}
		slices.Sort(others)
		fmt.Fprintf(b, "| %s | %s | %s (%s–%s) | %s | %.0f | %.0f | %s | %s | %s |\n", s.Workload, s.Target,
			short(s.ServerCPU), short(s.ServerCPURange[0]), short(s.ServerCPURange[1]), short(s.PerSecond), s.P50, s.P99,
			times, strings.Join(others, ", "), s.remarks())
	}
	writeNotServed(b, rows)
}

func writeSized(b *strings.Builder, rows []summary) {
	b.WriteString("| workload | server | figures |\n|---|---|---|\n")
	for _, s := range rows {
		if s.NotServed == "" {
			fmt.Fprintf(b, "| %s | %s | %s |\n", s.Workload, s.Target, s.remarks())
		}
	}
	writeNotServed(b, rows)
}

// writeNotServed lists the operations that are not served, with the server's messages.
func writeNotServed(b *strings.Builder, rows []summary) {
	for i, said := 0, false; i < len(rows); i++ {
		if s := rows[i]; s.NotServed != "" {
			if !said {
				b.WriteString("\nNot served:\n\n")
				said = true
			}
			fmt.Fprintf(b, "* %s by %s: %s\n", s.Workload, s.Target, cell(s.NotServed))
		}
	}
}

func (s summary) remarks() string {
	text := figures(s.Figures)
	if s.Errors > 0 {
		text += fmt.Sprintf(" **%d errors**: %s", s.Errors, cell(s.FirstError))
	}
	return text
}

// cell escapes text for a table cell.
func cell(s string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ").Replace(s)
}

// short formats a figure with a few significant digits.
func short(x float64) string {
	switch {
	case x >= 100 || x <= -100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	default:
		return fmt.Sprintf("%.2f", x)
	}
}
