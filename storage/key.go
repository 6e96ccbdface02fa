package storage

import (
	"fmt"
	"strings"
)

// MaxKeyBytes is the longest key and prefix that Store accepts. Names and namespaces of Kubernetes
// objects stay far below it.
const MaxKeyBytes = 2048

// ObjectRoot is the prefix of all objects: every key that [ObjectKey] makes begins with it.
const ObjectRoot = "/r/"

const (
	systemRoot = "/sys/" // records that are never served: format, cluster id, token keys
	tenantRoot = "/t/"   // tenants of Prefix; never seen above it
)

// ResourcePrefix is the prefix of all objects of one resource: "/r/<storage name>/". The storage
// name is one segment of the key, and a slash in it is escaped (see [ObjectKey]). So the prefix of
// "apps" does not reach into "apps/deployments", nor that of "widgets" into "widgetsets".
func ResourcePrefix(storageName string) string {
	return join(ObjectRoot, "", storageName)
}

// NamespacePrefix is the prefix of a resource's objects in one namespace: "/r/<storage
// name>/<namespace>/". The prefix of "team" does not reach into "team-a". An empty namespace stands
// for cluster-scoped objects.
func NamespacePrefix(storageName, namespace string) string {
	return join(ObjectRoot, "", storageName, namespace)
}

// nameEnd follows the name in an object key. It is less than every byte of a name, so keys have the
// order of names: "web" before "web-1". The slash alone would reverse these two, because it is
// greater than "-" and ".".
const nameEnd = "\x01"

// ObjectKey returns the key of one object: "/r/<storage name>/<namespace>/<name>\x01/". The
// namespace of a cluster-scoped object is empty. Within a segment "/" is written "%2F" and "%" is
// written "%25". So different triples always have different keys, and no name reaches beyond its
// segment. An object's own names contain neither; a storage name such as "example.dev/widgets"
// does.
func ObjectKey(storageName, namespace, name string) string {
	return join(ObjectRoot, nameEnd, storageName, namespace, name)
}

// SplitObjectKey reverses [ObjectKey]. ok is false for every text that ObjectKey does not produce
// from a non-empty storage name and name.
func SplitObjectKey(key string) (storageName, namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(key, ObjectRoot)
	if !ok {
		return "", "", "", false
	}
	a, rest, _ := strings.Cut(rest, "/")
	b, rest, _ := strings.Cut(rest, "/")
	c, rest, delimited := strings.Cut(rest, nameEnd+"/")
	if a == "" || c == "" || strings.Contains(c, "/") || !delimited || rest != "" {
		return "", "", "", false
	}
	storageName, ok1 := unescape(a)
	namespace, ok2 := unescape(b)
	name, ok3 := unescape(c)
	if !ok1 || !ok2 || !ok3 {
		return "", "", "", false
	}
	return storageName, namespace, name, true
}

// SysKey returns the key of a record that is never served: "/sys/<part>/<part>/", with the escapes
// of [ObjectKey]. It also makes the prefixes of such keys.
func SysKey(parts ...string) string {
	return join(systemRoot, "", parts...)
}

// tenantPrefix returns the prefix under which [Prefix] stores a tenant's keys, without the final
// slash, since every key starts with one.
func tenantPrefix(tenant string) string {
	return strings.TrimSuffix(join(tenantRoot, "", tenant), "/")
}

// join ends each segment with a slash and escapes the slashes inside. end goes before the last
// slash. Keys are made for every request, so join allocates only the result.
func join(root, end string, segments ...string) string {
	n := len(root) + len(end)
	for _, s := range segments {
		n += len(s) + len("/")
		for i := range len(s) {
			if s[i] == '/' || s[i] == '%' {
				n += len("25")
			}
		}
	}
	var b strings.Builder
	b.Grow(n)
	b.WriteString(root)
	for n, s := range segments {
		for i := range len(s) {
			switch s[i] {
			case '%':
				b.WriteString("%25")
			case '/':
				b.WriteString("%2F")
			default:
				b.WriteByte(s[i])
			}
		}
		if n == len(segments)-1 {
			b.WriteString(end)
		}
		b.WriteByte('/')
	}
	return b.String()
}

// unescape reverses the escapes of join and rejects texts that join does not write.
func unescape(s string) (string, bool) {
	if strings.IndexByte(s, '%') < 0 {
		return s, true
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		switch {
		case strings.HasPrefix(s[i:], "%25"):
			b.WriteByte('%')
		case strings.HasPrefix(s[i:], "%2F"):
			b.WriteByte('/')
		default:
			return "", false
		}
		i += len("%25") - 1
	}
	return b.String(), true
}

// ResourcePrefixOf returns the [ResourcePrefix] that an object key begins with, or "" for other
// keys. Of a tenant's object (see [Prefix]) the result begins with the tenant's prefix.
func ResourcePrefixOf(key string) string {
	rest := key
	for strings.HasPrefix(rest, tenantRoot) {
		_, rest, _ = strings.Cut(rest[len(tenantRoot):], "/")
		rest = key[max(0, len(key)-len(rest)-1):] // with the slash that ends the tenant's name
	}
	rest, ok := strings.CutPrefix(rest, ObjectRoot)
	if !ok {
		return ""
	}
	return key[:len(key)-len(rest)+strings.IndexByte(rest, '/')+1]
}

// checkKey applies the grammar of keys: an object key of three segments, of which only the
// namespace may be empty, or a system key of one or more non-empty segments. It allows no zero byte
// and at most MaxKeyBytes.
func checkKey(key string) error {
	if err := checkBytes("key", key); err != nil {
		return err
	}
	if rest, ok := strings.CutPrefix(key, ObjectRoot); ok {
		name, rest, _ := strings.Cut(rest, "/")
		_, rest, _ = strings.Cut(rest, "/")
		object, rest, delimited := strings.Cut(rest, "/")
		if name == "" || len(object) <= len(nameEnd) || !strings.HasSuffix(object, nameEnd) || !delimited || rest != "" {
			return fmt.Errorf("%w: key %q is not /r/<storage name>/<namespace>/<name>\\x01/", ErrInvalid, key)
		}
		return nil
	}
	rest, ok := strings.CutPrefix(key, systemRoot)
	if !ok || rest == "" || rest[0] == '/' || rest[len(rest)-1] != '/' || strings.Contains(rest, "//") {
		return fmt.Errorf("%w: key %q is neither /r/<storage name>/<namespace>/<name>\\x01/ nor /sys/<part>/", ErrInvalid, key)
	}
	return nil
}

// checkPrefix applies the grammar of prefixes: empty, or whole segments.
func checkPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	if err := checkBytes("prefix", prefix); err != nil {
		return err
	}
	if prefix[0] != '/' || prefix[len(prefix)-1] != '/' {
		return fmt.Errorf("%w: prefix %q does not begin and end with a slash", ErrInvalid, prefix)
	}
	return nil
}

// checkBytes limits the length of a key or prefix and rejects the zero byte, which backends may use
// as a separator.
func checkBytes(what, s string) error {
	if len(s) > MaxKeyBytes {
		return fmt.Errorf("%w: %s of %d bytes, the limit is %d", ErrInvalid, what, len(s), MaxKeyBytes)
	}
	if strings.IndexByte(s, 0) >= 0 {
		return fmt.Errorf("%w: %s %q contains a zero byte", ErrInvalid, what, s)
	}
	return nil
}
