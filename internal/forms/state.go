package forms

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/storage"
)

// notice is the record in which a process announces itself.
type notice struct {
	Host  string              `json:"host"`
	Reads map[string][]string `json:"reads"` // by storage name, the preferred form first
}

// agreed is the record of the forms that are written.
type agreed struct {
	Forms map[string]string `json:"forms"` // by storage name
}

// peer is a process as the records describe it.
type peer struct {
	host   string
	reads  map[string][]string
	opaque bool             // its announcement cannot be read, so nobody knows what it reads
	notice storage.Revision // of the announcement
	beat   storage.Revision // 0 if there is none
}

// state is what the records say at one revision.
type state struct {
	peers     map[string]*peer
	written   map[string]string
	writtenAt storage.Revision
	roster    storage.Revision
}

// page is how many records are read at a time.
const page = 500

// read reads the records.
func (a *Agreement) read(ctx context.Context) (*state, error) {
	s := &state{peers: map[string]*peer{}, written: map[string]string{}}
	beats := map[string]storage.Revision{}
	request := storage.ListRequest{Prefix: root, Limit: page}
	for {
		got, err := a.cfg.Store.List(ctx, request)
		if err != nil {
			return nil, err
		}
		for _, r := range got.Records {
			s.take(r, beats)
		}
		if !got.More {
			break
		}
		request.After, request.At = got.Records[len(got.Records)-1].Key, got.Revision
	}
	for id, p := range s.peers {
		p.beat = beats[id]
	}
	return s, nil
}

// take reads one record. The forms that are written are unknown if their record cannot be read, as
// if nobody had agreed yet.
func (s *state) take(r storage.Record, beats map[string]storage.Revision) {
	parts := strings.Split(strings.TrimSuffix(strings.TrimPrefix(r.Key, root), "/"), "/")
	switch {
	case r.Key == writtenKey:
		var a agreed
		if r.Err == nil && json.Unmarshal(r.Value, &a) == nil && a.Forms != nil {
			s.written = a.Forms
		}
		s.writtenAt = r.Revision
	case r.Key == rosterKey:
		s.roster = r.Revision
	case len(parts) == 2 && parts[0] == "beat":
		beats[parts[1]] = r.Revision
	case len(parts) == 2 && parts[0] == "reads":
		p, n := &peer{notice: r.Revision}, notice{}
		if r.Err != nil || json.Unmarshal(r.Value, &n) != nil {
			p.opaque, n.Host = true, "a process whose announcement cannot be read"
		}
		p.host, p.reads = n.Host, n.Reads
		s.peers[parts[1]] = p
	}
}

// choose returns the form that a kind is to be written in from now on, as far as process id can tell,
// which reads the given ones and prefers the first. "" is a form that nobody has chosen yet.
func (s *state) choose(name string, reads []string, id string) string {
	now := s.written[name]
	if now == reads[0] || now != "" && s.preferred(name, now, id) {
		return now
	}
	for _, form := range reads {
		if s.common(name, form, id) {
			return form
		}
		if now != "" {
			break // only the preferred one is worth a change
		}
	}
	return now
}

// preferred reports whether another process prefers a form.
func (s *state) preferred(name, form, id string) bool {
	for other, p := range s.peers {
		if forms := p.reads[name]; other != id && len(forms) > 0 && forms[0] == form {
			return true
		}
	}
	return false
}

// common reports whether the other processes read a form. One that does not serve the kind reads any.
func (s *state) common(name, form, id string) bool {
	for other, p := range s.peers {
		if other == id {
			continue
		}
		if forms, serves := p.reads[name]; p.opaque || serves && !slices.Contains(forms, form) {
			return false
		}
	}
	return true
}

// users names the processes that a form is written for.
func (s *state) users(name, form, id string) string {
	var hosts []string
	for _, other := range slices.Sorted(maps.Keys(s.peers)) {
		p := s.peers[other]
		if forms := p.reads[name]; other != id && (p.opaque || len(forms) > 0 && forms[0] == form) {
			hosts = append(hosts, p.host)
		}
	}
	if len(hosts) == 0 {
		return "other processes"
	}
	return list(hosts)
}

func list(names []string) string { return strings.Join(names, " and ") }
