package protobuf

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
)

func TestPATH_19_Document(t *testing.T) {
	d := describe[meta.DeleteOptions](t)
	want := "k8s\x00" +
		text(1, text(1, "v1")+text(2, "DeleteOptions")) +
		text(2, number(1, 30)+text(5, "All")) +
		text(3, "") + text(4, "")
	object := `{"apiVersion":"v1","dryRun":["All"],"gracePeriodSeconds":30,"kind":"DeleteOptions"}`
	document, err := d.AppendObject([]byte("before"), "v1", "DeleteOptions", []byte(object))
	require.NoError(t, err)
	require.Equal(t, "before"+want, string(document))

	e, err := Open([]byte(want))
	require.NoError(t, err)
	require.Equal(t, Envelope{APIVersion: "v1", Kind: "DeleteOptions", Message: []byte(number(1, 30) + text(5, "All"))}, e)

	got, err := d.AppendDocument([]byte("before"), []byte(want), limit)
	require.NoError(t, err)
	require.Equal(t, "before"+`{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":30,"dryRun":["All"]}`, string(got))

	document, err = d.AppendObject([]byte("before"), "v1", "DeleteOptions", []byte(`{"dryRun":1}`))
	require.EqualError(t, err, "protobuf: dryRun: must be an array")
	require.Equal(t, "before", string(document))
}

func TestEnvelopesThatSayLess(t *testing.T) {
	for name, c := range map[string]struct {
		document string
		want     Envelope
	}{
		"nothing":                  {"", Envelope{}},
		"no type":                  {text(2, "x"), Envelope{Message: []byte("x")}},
		"type in parts":            {text(1, text(1, "v1")) + text(1, text(2, "Widget")), Envelope{APIVersion: "v1", Kind: "Widget"}},
		"known content type":       {text(4, MediaType), Envelope{}},
		"unknown fields":           {number(9, 1) + text(1, text(1, "v1")+number(7, 1)), Envelope{APIVersion: "v1"}},
		"two messages, one counts": {text(2, "x") + text(2, "y"), Envelope{Message: []byte("y")}},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := Open([]byte(magic + c.document))
			require.NoError(t, err)
			require.Equal(t, c.want, e)
		})
	}
}

func TestDocumentsThatAreRefused(t *testing.T) {
	const announced = "protobuf: the content type is application/vnd.kubernetes.protobuf, but the body is JSON or YAML"
	const noMagic = `protobuf: the document does not begin with the bytes "k8s\x00"`
	d := describe[meta.DeleteOptions](t)
	for name, c := range map[string]struct{ document, want string }{
		"JSON":                    {`{"apiVersion":"v1"}`, announced},
		"JSON after blanks":       {" \r\n\t[]", announced},
		"YAML":                    {"---\na: 1", announced},
		"nothing":                 {"", noMagic},
		"blanks":                  {"  ", noMagic},
		"text":                    {"apiVersion", noMagic},
		"half the magic":          {"k8s", noMagic},
		"another style":           {"k8s\x01", noMagic},
		"the message alone":       {number(1, 30), noMagic},
		"truncated":               {magic + "\x0a\x05a", "protobuf: the envelope is damaged: the message ends early"},
		"2 GiB announced":         {magic + "\x12\xff\xff\xff\xff\x07a", "protobuf: the envelope is damaged: the message ends early"},
		"integer for the type":    {magic + number(1, 1), "protobuf: the envelope is damaged: has wire type varint, must be bytes"},
		"integer for the message": {magic + number(2, 1), "protobuf: the envelope is damaged: has wire type varint, must be bytes"},
		"integer for the kind":    {magic + text(1, number(2, 1)), "protobuf: the type in the envelope is damaged: has wire type varint, must be bytes"},
		"damaged type":            {magic + text(1, "\x0a\x05"), "protobuf: the type in the envelope is damaged: the message ends early"},
		"kind that is not UTF-8":  {magic + text(1, text(2, "\xff")), "protobuf: the type in the envelope is damaged"},
		"compressed":              {magic + text(3, "gzip"), "protobuf: the envelope has another encoding"},
		"JSON in an envelope":     {magic + text(4, "application/json"), "protobuf: the envelope has another content type"},
		"message of another kind": {magic + text(2, text(1, text(1, "name"))), "protobuf: gracePeriodSeconds: has wire type bytes, must be varint"},
		"envelope in an envelope": {magic + text(2, magic), "protobuf: a group has no end, or an end without a group"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := d.AppendDocument([]byte("before"), []byte(c.document), limit)
			require.EqualError(t, err, c.want)
			var failure *Error
			require.ErrorAs(t, err, &failure)
			require.Equal(t, "before", string(got))
		})
	}
}

func TestWATCH_35_Frames(t *testing.T) {
	d := describe[meta.Status](t)
	for _, size := range []int{0, 100, 10_000, 3 << 20} {
		object := []byte(`{"message":"` + strings.Repeat("x", size) + `"}`)
		frame, err := d.AppendEvent([]byte("before"), meta.Error, "v1", "Status", object)
		require.NoError(t, err)
		document, err := d.AppendObject(nil, "v1", "Status", object)
		require.NoError(t, err)
		event := text(1, "ERROR") + text(2, text(1, string(document)))
		require.Equal(t, "before"+string(binary.BigEndian.AppendUint32(nil, uint32(len(event))))+event, string(frame))
	}
	frame, err := d.AppendEvent([]byte("before"), meta.Error, "v1", "Status", []byte(`{"code":"x"}`))
	require.EqualError(t, err, "protobuf: code: must be a number")
	require.Equal(t, "before", string(frame))
}
