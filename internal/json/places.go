package json

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Places tells of each member of the objects in a document its path, in the form of [FormatPath], and
// its offset, in the order in which they stand there; a name that is repeated is told of each time.
// The path is valid during the call alone. Places stops where the document is invalid. It does not
// shorten paths, so a path that FormatPath has cut is not among them.
func Places(document []byte, tell func(path []byte, offset int64)) {
	d := jsontext.NewDecoder(bytes.NewReader(document), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	placesOf(d, nil, tell)
}

func placesOf(d *jsontext.Decoder, path []byte, tell func(path []byte, offset int64)) (ok bool) {
	switch d.PeekKind() {
	case '{':
		return inside(d, '}', func(int) bool {
			name, err := d.ReadToken()
			if err != nil {
				return false
			}
			text := name.String()
			at := path
			switch {
			case !plainName(text):
				at = append(append(append(at, '['), text...), ']')
			case len(path) > 0:
				at = append(append(at, '.'), text...)
			default:
				at = append(at, text...)
			}
			tell(at, d.InputOffset())
			return placesOf(d, at, tell)
		})
	case '[':
		return inside(d, ']', func(i int) bool {
			return placesOf(d, append(strconv.AppendInt(append(path, '['), int64(i), 10), ']'), tell)
		})
	}
	return d.SkipValue() == nil
}

// inside reads an object or a list, whose members each reads.
func inside(d *jsontext.Decoder, end jsontext.Kind, each func(i int) bool) bool {
	if _, err := d.ReadToken(); err != nil {
		return false
	}
	for i := 0; d.PeekKind() != end; i++ {
		if !each(i) {
			return false
		}
	}
	_, err := d.ReadToken()
	return err == nil
}
