package apitest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// door is a kind with many types of fields; doorBeta is another version of it.
type door struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Width           int32             `json:"width" minimum:"10" maximum:"12"`
	Wood            string            `json:"wood,omitempty" enum:"oak,ash"`
	Label           string            `json:"label,omitempty" minLength:"3" maxLength:"5"`
	Since           meta.Time         `json:"since,omitzero"`
	Exact           meta.MicroTime    `json:"exact,omitzero"`
	Locks           []lock            `json:"locks,omitempty" list:"map,key=name"`
	Colors          []string          `json:"colors,omitempty" list:"set"`
	Notes           map[string]string `json:"notes,omitempty"`
	Data            []byte            `json:"data,omitempty"`
	Open            bool              `json:"open,omitempty"`
	Weight          float64           `json:"weight,omitempty"`
}

type lock struct {
	Name string `json:"name"`
	Keys int64  `json:"keys,omitempty"`
}

type doorBeta door

func doors(to func(*doorBeta) (*door, error), from func(*door) (*doorBeta, error)) registry.Kind[door] {
	return registry.Kind[door]{
		Group: "example.dev", Version: "v1", Plural: "doors", Names: registry.Names{Kind: "Door"},
		Also: []registry.Form{registry.As(registry.Kind[doorBeta]{Group: "example.dev", Version: "v1beta1", Plural: "doors", Names: registry.Names{Kind: "Door"}}, to, from, nil)},
	}
}

func toDoor(b *doorBeta) (*door, error)   { d := door(*b); return &d, nil }
func fromDoor(d *door) (*doorBeta, error) { b := doorBeta(*d); return &b, nil }

// failing records the failures of the code under test.
type failing struct {
	testing.TB
	said []string
}

func (f *failing) Helper() {}
func (f *failing) Errorf(format string, args ...any) {
	f.said = append(f.said, fmt.Sprintf(format, args...))
}
func (f *failing) Fatalf(format string, args ...any) { f.Errorf(format, args...) }

func TestVER_15_RoundTrip(t *testing.T) {
	apitest.RoundTrip(t, doors(toDoor, fromDoor))
	apitest.RoundTrip(t, kinds.Events())

	for want, k := range map[string]registry.Kind[door]{
		"v1 to example.dev/v1beta1 and back, seed": doors(toDoor, func(d *door) (*doorBeta, error) { b := doorBeta(*d); b.Wood = ""; return &b, nil }),
		"wood is lost":                       doors(toDoor, func(d *door) (*doorBeta, error) { b := doorBeta(*d); b.Wood = ""; return &b, nil }),
		"v1beta1 to example.dev/v1 and back": doors(func(b *doorBeta) (*door, error) { d := door(*b); d.Data = nil; return &d, nil }, fromDoor),
		"locks.keys is lost (in item 0)":     doors(toDoor, forgetKeys),
		"width is 10 instead of":             doors(func(b *doorBeta) (*door, error) { d := door(*b); d.Width = 10; return &d, nil }, fromDoor),
		"open appears":                       doors(func(b *doorBeta) (*door, error) { d := door(*b); d.Open = true; return &d, nil }, fromDoor),
		"colors has": doors(toDoor, func(d *door) (*doorBeta, error) {
			b := doorBeta(*d)
			b.Colors = append(b.Colors, "more")
			return &b, nil
		}),
		"the conversion panicked: boom":         doors(toDoor, func(*door) (*doorBeta, error) { panic("boom") }),
		"every random object was rejected":      doors(func(*doorBeta) (*door, error) { return nil, status.BadRequest("no doors") }, fromDoor),
		"there is nothing to convert":           {Group: "example.dev", Version: "v1", Plural: "doors", Names: registry.Names{Kind: "Door"}},
		"kind name \"door\": must be a Go-like": {Group: "example.dev", Version: "v1", Plural: "doors"},
	} {
		f := &failing{}
		apitest.RoundTrip(f, k)
		require.Contains(t, strings.Join(f.said, "\n"), want)
	}
	f := &failing{}
	apitest.RoundTrips{Lost: map[string][]string{"example.dev/v1beta1": {"locks.keys"}}}.Check(f, doors(toDoor, forgetKeys))
	require.Len(t, f.said, 1, "%s", f.said)
	require.Contains(t, f.said[0], "example.dev/v1beta1 to", "which has the field and loses it all the same")

	apitest.RoundTrips{Make: func(_ string, object map[string]any) { delete(object, "locks") }}.Check(t, doors(toDoor, forgetKeys))
}

func forgetKeys(d *door) (*doorBeta, error) {
	b := doorBeta(*d)
	b.Locks = nil
	for _, l := range d.Locks {
		b.Locks = append(b.Locks, lock{Name: l.Name})
	}
	return &b, nil
}

func FuzzRoundTrip(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { apitest.RoundTrip(t, doors(toDoor, fromDoor), seed) })
}

func ExampleRoundTrip() {
	forgetful := func(d *door) (*doorBeta, error) { return &doorBeta{Width: d.Width, Wood: d.Wood, Label: d.Label}, nil }
	f := &failing{}
	apitest.RoundTrip(f, doors(toDoor, forgetful), 1)
	line, _, _ := strings.Cut(f.said[0], "\n")
	fmt.Println(line)
	// Output: example.dev/v1 to example.dev/v1beta1 and back, seed 1: colors is lost
}
