package meta

// RawJSON is one JSON value kept as its text. Empty means absent and is written as null.
type RawJSON []byte

// MarshalJSON returns the text itself, not a copy. The caller must not change it.
func (r RawJSON) MarshalJSON() ([]byte, error) {
	if len(r) == 0 {
		return []byte("null"), nil
	}
	return r, nil
}

// UnmarshalJSON keeps a copy of b; null becomes empty. It does not validate the text, because
// decoders pass valid values.
func (r *RawJSON) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*r = nil
		return nil
	}
	*r = append(RawJSON(nil), b...)
	return nil
}
