package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	netutil "k8s.io/apimachinery/pkg/util/net"
)

// A comparison writes objects here and asks what becomes of them there.
type comparison struct {
	here     *server
	there    oracle
	next     *generator
	messages bool
	report   *report
}

// run makes writes of all subjects in turn.
func (c *comparison) run(ctx context.Context, subjects []*subject, writes int) error {
	if err := c.accepted(subjects); err != nil {
		return err
	}
	for i := range writes {
		s := subjects[i%len(subjects)]
		stored, err := c.here.read(ctx, s)
		if err != nil {
			return err
		}
		w := c.next.write(s, stored)
		theirs, err := c.there.ask(question{Op: w.op, Kind: w.kind, New: w.object, Old: stored})
		if err != nil {
			return err
		}
		ours, err := c.here.try(ctx, w)
		if err != nil {
			return err
		}
		c.report.add(w, theirs, ours, differences(w.typ, theirs, ours, c.messages))
	}
	return nil
}

// accepted reports objects that Kubernetes refuses as they are. Changes of these would tell little.
func (c *comparison) accepted(subjects []*subject) error {
	var problems []error
	for _, s := range subjects {
		a, err := c.there.ask(question{Op: opCreate, Kind: s.kind, New: s.sent})
		if err != nil {
			return err
		}
		if !a.succeeded() {
			problems = append(problems, fmt.Errorf("%s %s: there %s", s.kind, s.name(), outcome(a)))
		}
	}
	return errors.Join(problems...)
}

// A difference is one between two answers.
type difference struct {
	what   string // the same in all writes that have it
	detail string
}

// differences lists what differs in the answers to a write of a type. Messages are the sentences of
// causes.
func differences(t reflect.Type, theirs, ours answer, messages bool) []difference {
	judged := func(a answer) bool { return a.succeeded() || a.Code == http.StatusUnprocessableEntity }
	switch {
	case theirs.Code == 0:
		return []difference{{"PANIC", theirs.Message}}
	case !judged(theirs) || !judged(ours):
		if theirs.Code == ours.Code {
			return nil
		}
		return []difference{{fmt.Sprintf("CODE there %d, here %d", theirs.Code, ours.Code), theirs.Message + ours.Message}}
	case !theirs.succeeded() || !ours.succeeded():
		return differentCauses(theirs.Causes, ours.Causes, messages)
	}
	out := differentWarnings(theirs.Warnings, ours.Warnings)
	for _, c := range changes(ownless(theirs.Object), ownless(ours.Object), t, "") {
		what := "OBJECT " + plain(c.path)
		if c.left == null {
			what += " NULL" // there
		}
		out = append(out, difference{what, fmt.Sprintf("%s: there %s, here %s", c.path, c.left, c.right)})
	}
	return out
}

// differentCauses compares the fields and reasons of failures, and their sentences where both name a field.
func differentCauses(theirs, ours []metav1.StatusCause, messages bool) []difference {
	var out []difference
	there, here := byField(theirs), byField(ours)
	for _, key := range slices.Sorted(maps.Keys(there)) {
		switch found, ok := here[key]; {
		case !ok:
			out = append(out, difference{"MISSING " + plain(key), key + ": " + strings.Join(there[key], "; ")})
		case messages && !slices.Equal(there[key], found):
			out = append(out, difference{"MESSAGE " + plain(key), fmt.Sprintf("%s: there %q, here %q", key, there[key], found)})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(here)) {
		if _, ok := there[key]; !ok {
			out = append(out, difference{"EXTRA " + plain(key), key + ": " + strings.Join(here[key], "; ")})
		}
	}
	return out
}

// byField returns the sentences of causes, by reason and field, in order. Kubernetes says some twice.
func byField(causes []metav1.StatusCause) map[string][]string {
	out := map[string][]string{}
	for _, c := range causes {
		key := string(c.Type) + " " + c.Field
		out[key] = append(out[key], c.Message)
		slices.Sort(out[key])
		out[key] = slices.Compact(out[key])
	}
	return out
}

// differentWarnings compares the warnings that a client gets.
func differentWarnings(theirs, ours []string) []difference {
	var out []difference
	there := slices.DeleteFunc(slices.Clone(theirs), func(text string) bool {
		_, err := netutil.NewWarningHeader(299, "-", text)
		return err != nil // kube-apiserver cannot send it
	})
	for _, text := range there {
		if !slices.Contains(ours, text) {
			out = append(out, difference{"WARNING MISSING " + clip(plain(text), 80), text})
		}
	}
	for _, text := range ours {
		if !slices.Contains(there, text) {
			out = append(out, difference{"WARNING EXTRA " + clip(plain(text), 80), text})
		}
	}
	return out
}

// plain returns a text without what is in brackets and quotes: indices, keys, values.
func plain(text string) string {
	return varying.ReplaceAllStringFunc(text, func(s string) string { return s[:1] + s[len(s)-1:] })
}

var varying = regexp.MustCompile(`\[[^\]]*\]|"[^"]*"`)
