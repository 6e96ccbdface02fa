package entries

import (
	"maps"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/status"
)

// MaxBytes bounds the values of one object together.
const MaxBytes = 1 << 20

// CheckConfigMap reports invalid names, names in both maps, and too much data.
func CheckConfigMap(f *status.Fields, data map[string]string, binary map[string][]byte) {
	size := 0
	for _, name := range slices.Sorted(maps.Keys(data)) {
		at := f.At("data").Key(name)
		if why := CheckKey(name); why != "" {
			at.Invalid(name, why)
		}
		if _, twice := binary[name]; twice {
			at.Invalid(name, "duplicate of key present in binaryData")
		}
		size += len(data[name])
	}
	if size += checkBinary(f, "binaryData", binary); size > MaxBytes {
		f.At().TooLong(MaxBytes)
	}
}

// The types of secrets whose entries are checked.
const (
	secretToken            = "kubernetes.io/service-account-token"
	secretDockercfg        = "kubernetes.io/dockercfg"
	secretDockerConfigJSON = "kubernetes.io/dockerconfigjson"
	secretBasicAuth        = "kubernetes.io/basic-auth"
	secretSSH              = "kubernetes.io/ssh-auth"
	secretTLS              = "kubernetes.io/tls"
)

const accountName = "kubernetes.io/service-account.name"

// CheckSecret reports invalid names, too much data, and what a secret of a well-known type lacks.
// Errors do not show values.
func CheckSecret(f *status.Fields, secretType string, data map[string][]byte, annotations map[string]string) {
	if checkBinary(f, "data", data) > MaxBytes {
		f.At("data").TooLong(MaxBytes)
	}
	require := func(names ...string) {
		for _, name := range names {
			if _, has := data[name]; !has {
				f.At("data").Key(name).Required("")
			}
		}
	}
	switch secretType {
	case secretToken:
		if annotations[accountName] == "" {
			f.At("metadata", "annotations").Key(accountName).Required("")
		}
	case secretDockercfg:
		require(".dockercfg")
		checkObject(f, data, ".dockercfg")
	case secretDockerConfigJSON:
		require(".dockerconfigjson")
		checkObject(f, data, ".dockerconfigjson")
	case secretBasicAuth:
		if data["username"] == nil && data["password"] == nil {
			require("username", "password")
		}
	case secretSSH:
		if len(data["ssh-privatekey"]) == 0 {
			f.At("data").Key("ssh-privatekey").Required("")
		}
	case secretTLS:
		require("tls.crt", "tls.key")
	}
}

// Sealed reports changes of an object that was marked as immutable. unchanged tells of each field
// whether it is as before.
func Sealed(f *status.Fields, was, is *bool, unchanged map[string]bool) {
	if was == nil || !*was {
		return
	}
	const detail = "field is immutable when `immutable` is set"
	if is == nil || !*is {
		f.At("immutable").Forbidden(detail)
	}
	for _, field := range slices.Sorted(maps.Keys(unchanged)) {
		if !unchanged[field] {
			f.At(field).Forbidden(detail)
		}
	}
}

// Equal compares two maps of bytes.
func Equal(a, b map[string][]byte) bool { return maps.EqualFunc(a, b, slices.Equal) }

// checkBinary reports invalid names and returns the size of the values.
func checkBinary(f *status.Fields, field string, data map[string][]byte) (size int) {
	for _, name := range slices.Sorted(maps.Keys(data)) {
		if why := CheckKey(name); why != "" {
			f.At(field).Key(name).Invalid(name, why)
		}
		size += len(data[name])
	}
	return size
}

// checkObject requires an entry, if it is there, to be a JSON object.
func checkObject(f *status.Fields, data map[string][]byte, name string) {
	text, has := data[name]
	if has && json.Unmarshal(text, &map[string]any{}) != nil {
		f.At("data").Key(name).Invalid("<secret contents redacted>", "must be a JSON object")
	}
}

// CheckKey returns why a name cannot be that of an entry, which may become a file, or "".
func CheckKey(name string) string {
	switch {
	case name == "" || strings.Trim(name, "-._abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "":
		return "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
	case len(name) > 253:
		return "must be no more than 253 characters"
	case name == "." || strings.HasPrefix(name, ".."):
		return "must not be '.', and must not start with '..'"
	}
	return ""
}
