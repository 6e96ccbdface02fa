package random

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
)

const (
	cases        = 200               // of each property
	seedVariable = "KINDWRIGHT_SEED" // the seed of the first case
)

// T is one case of a property. The functions of testify accept it in place of a test.
type T struct {
	from     source
	choices  []uint64
	depth    int  // of calls of Draw
	noting   bool // only in the case that is reported: values can be large
	notes    []string
	failures []string
}

// source gives a number below n. If n is 0, it gives any number.
type source func(n uint64) uint64

// failedNow is the panic that ends a case.
type failedNow struct{}

// Check fails the test if the property fails for one of many random cases.
func Check(t testing.TB, property func(*T)) {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv(seedVariable); text != "" {
		given, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
		seed = given
	}
	for i := range uint64(cases) {
		if c := run(property, seeded(seed+i), false); c.failed() {
			t.Fatalf("case %d of %d failed; %s=%d go test -run '^%s$' repeats it\n%s",
				i+1, cases, seedVariable, seed+i, t.Name(), report(property, c))
			return
		}
	}
}

// Fuzz turns a property into a fuzz target: the choices come from the data.
func Fuzz(property func(*T)) func(*testing.T, []byte) {
	return func(t *testing.T, data []byte) {
		if c := run(property, fromBytes(data), false); c.failed() {
			t.Fatal(report(property, c))
		}
	}
}

// report describes the smallest case like c that fails.
func report(property func(*T), c *T) string {
	smallest := shrink(c.choices, func(choices []uint64) ([]uint64, bool) {
		c := run(property, replayed(choices), false)
		return c.choices, c.failed()
	})
	last := run(property, replayed(smallest), true)
	if !last.failed() {
		return "the property passes if the case is repeated\n" + strings.Join(c.failures, "\n")
	}
	return strings.Join(append(last.notes, last.failures...), "\n")
}

// run runs the property with choices from a source.
func run(property func(*T), from source, noting bool) (c *T) {
	c = &T{from: from, noting: noting}
	defer func() {
		if r := recover(); r != nil && r != any(failedNow{}) {
			c.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	property(c)
	return c
}

func seeded(seed uint64) source {
	r := rand.New(rand.NewPCG(seed, 0))
	return func(n uint64) uint64 {
		if n == 0 {
			return r.Uint64()
		}
		return r.Uint64N(n)
	}
}

// replayed repeats choices. After the last it gives 0, which ends every list.
func replayed(choices []uint64) source {
	return func(n uint64) uint64 {
		if len(choices) == 0 {
			return 0
		}
		c := choices[0]
		if choices = choices[1:]; n > 0 {
			c %= n
		}
		return c
	}
}

// fromBytes takes from data as many bytes as the number may have.
func fromBytes(data []byte) source {
	return func(n uint64) uint64 {
		var word [8]byte
		size := 1
		for size < len(word) && n-1 > 1<<(8*size)-1 {
			size++
		}
		data = data[copy(word[:size], data):]
		c := binary.LittleEndian.Uint64(word[:])
		if n > 0 {
			c %= n
		}
		return c
	}
}

// below returns a number below n, or any number if n is 0.
func (t *T) below(n uint64) uint64 {
	c := t.from(n)
	t.choices = append(t.choices, c)
	return c
}

func (t *T) failed() bool { return len(t.failures) > 0 }

// Helper does nothing: failures have a stack.
func (t *T) Helper() {}

// Errorf marks the case as failed.
func (t *T) Errorf(format string, args ...any) {
	t.failures = append(t.failures, fmt.Sprintf(format, args...))
}

// FailNow ends the case as failed. Only the goroutine of the property may call it.
func (t *T) FailNow() {
	if !t.failed() {
		t.Errorf("failed")
	}
	panic(failedNow{})
}

// Fatalf marks the case as failed and ends it.
func (t *T) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	t.FailNow()
}
