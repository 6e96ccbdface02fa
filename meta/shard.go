package meta

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// Shards selects objects by the hash of one of their fields, so that several clients share a
// collection: each lists and watches the objects whose hash is in its ranges. The hash is FNV-1a of
// 64 bits, as in Kubernetes.
type Shards struct {
	byNamespace bool // else by uid
	ranges      []shardRange
}

// shardRange holds the hashes from first to last, both included.
type shardRange struct{ first, last uint64 }

const (
	shardByUID       = "object.metadata.uid"
	shardByNamespace = "object.metadata.namespace"

	maxShardRanges = 1000
)

// ParseShards parses a shard selector: ranges of hashes, joined by ||, all over one field.
//
//	shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')
//
// A range does not include its end. The field is object.metadata.uid or object.metadata.namespace.
// The error is suited to a 400 response.
func ParseShards(s string) (*Shards, error) {
	out := &Shards{}
	var field string
	for part := range strings.SplitSeq(s, "||") {
		name, r, err := parseShardRange(strings.TrimSpace(part))
		switch {
		case err != nil:
			return nil, err
		case field != "" && name != field:
			return nil, fmt.Errorf("all shard ranges must use the same field, got %s and %s", field, name)
		case len(out.ranges) == maxShardRanges:
			return nil, fmt.Errorf("a shard selector has at most %d ranges", maxShardRanges)
		}
		field = name
		out.ranges = append(out.ranges, r)
	}
	out.byNamespace = field == shardByNamespace
	return out, nil
}

func parseShardRange(s string) (field string, r shardRange, err error) {
	call, ok := strings.CutPrefix(s, "shardRange")
	call = strings.TrimSpace(call)
	if !ok || !strings.HasPrefix(call, "(") || !strings.HasSuffix(call, ")") {
		return "", r, fmt.Errorf("%s is not a shardRange(field, start, end)", quoteShort(s))
	}
	arguments := strings.Split(call[1:len(call)-1], ",")
	if len(arguments) != 3 {
		return "", r, fmt.Errorf("shardRange takes 3 arguments, got %d", len(arguments))
	}
	if field = strings.TrimSpace(arguments[0]); field != shardByUID && field != shardByNamespace {
		return "", r, fmt.Errorf("%s cannot be sharded by: only %s and %s", quoteShort(field), shardByUID, shardByNamespace)
	}
	start, full, err := parseHash(arguments[1])
	if err == nil && full {
		err = errors.New("a shard range must begin before its end")
	}
	if err != nil {
		return "", r, err
	}
	end, full, err := parseHash(arguments[2])
	switch {
	case err != nil:
		return "", r, err
	case !full && start >= end:
		return "", r, errors.New("a shard range must begin before its end")
	}
	return field, shardRange{start, end - 1}, nil // 0 stands for 2^64 here, and 0-1 for the last hash
}

// parseHash reads a bound of a range. full says that it is 2^64, the end of the last one.
func parseHash(s string) (hash uint64, full bool, err error) {
	s = strings.TrimSpace(s)
	if n := len(s); n < 2 || s[0] != s[n-1] || s[0] != '\'' && s[0] != '"' {
		return 0, false, fmt.Errorf("%s is not a quoted hash such as '0x8000000000000000'", quoteShort(s))
	}
	s = s[1 : len(s)-1]
	if s == "0x10000000000000000" {
		return 0, true, nil
	}
	digits, ok := strings.CutPrefix(s, "0x")
	hash, err = strconv.ParseUint(digits, 16, 64)
	if !ok || err != nil || fmt.Sprintf("%016x", hash) != digits {
		return 0, false, fmt.Errorf("%s is not 0x and 16 hexadecimal digits in lower case", quoteShort(s))
	}
	return hash, false, nil
}

// Matches reports whether an object with this uid and namespace is selected. Nil selects everything.
func (s *Shards) Matches(uid UID, namespace string) bool {
	if s == nil {
		return true
	}
	value := string(uid)
	if s.byNamespace {
		value = namespace
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(value))
	hash := h.Sum64()
	for _, r := range s.ranges {
		if r.first <= hash && hash <= r.last {
			return true
		}
	}
	return false
}

// String returns the selector in its canonical form, "" for nil.
func (s *Shards) String() string {
	if s == nil {
		return ""
	}
	field := shardByUID
	if s.byNamespace {
		field = shardByNamespace
	}
	parts := make([]string, len(s.ranges))
	for i, r := range s.ranges {
		end := "0x10000000000000000"
		if r.last+1 != 0 {
			end = fmt.Sprintf("0x%016x", r.last+1)
		}
		parts[i] = fmt.Sprintf("shardRange(%s, '0x%016x', '%s')", field, r.first, end)
	}
	return strings.Join(parts, " || ")
}
