package apitest_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

// Widget is a thing with a desired and an observed state.
type Widget struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Spec   WidgetSpec   `json:"spec,omitzero"`
	Status WidgetStatus `json:"status,omitzero"`
}

// WidgetSpec is the desired state of a widget.
type WidgetSpec struct {
	Size int32 `json:"size,omitempty"`
}

// WidgetStatus is the observed state of a widget.
type WidgetStatus struct {
	Phase string `json:"phase,omitempty"`
}

// Widgets is the kind.
var Widgets = registry.Kind[Widget]{Group: "shop.example.com", Version: "v1", Plural: "widgets"}

func widget(name string) *Widget { return &Widget{ObjectMeta: meta.Named("default", name)} }

// scope is a testing.TB that records failures and ends on demand, to test a server from outside.
type scope struct {
	testing.TB // nil: the methods that a server needs are below

	mu       sync.Mutex
	problems []string
	log      []string
	cleanups []func()
}

func (s *scope) Helper() {}

func (s *scope) Name() string { return "a test" }

func (s *scope) Errorf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}

func (s *scope) Failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.problems) > 0
}

func (s *scope) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	runtime.Goexit()
}

func (s *scope) Log(args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, fmt.Sprintln(args...))
}

func (s *scope) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

// end runs the clean-ups and returns the recorded failures.
func (s *scope) end() string {
	for _, f := range slices.Backward(s.cleanups) {
		f()
	}
	s.cleanups = nil
	return strings.Join(s.problems, "\n")
}

// within runs f as a test, to its end or to a Fatalf, and returns the recorded failures.
func within(t testing.TB, f func(s *scope)) string {
	t.Helper()
	s := &scope{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(s)
	}()
	<-done
	return s.end()
}
