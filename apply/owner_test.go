package apply

import "testing"

// TestSameOwner holds owners that are compared by their fields to what their ids say (SSA-21).
func TestSameOwner(t *testing.T) {
	var all []owner
	for _, manager := range []string{"", "a", `a","operation":"Apply`} {
		for _, operation := range []string{opApply, opUpdate} {
			for _, version := range []string{"", "v1", "v2"} {
				for _, subresource := range []string{"", "status"} {
					all = append(all, owner{manager, operation, version, subresource})
				}
			}
		}
	}
	for _, a := range all {
		for _, b := range all {
			if got, want := a.same(b), a.id() == b.id(); got != want {
				t.Errorf("%+v and %+v are the same: %v, want %v", a, b, got, want)
			}
		}
	}
}
