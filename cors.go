package kindwright

import (
	"fmt"
	"net/http"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/request"
)

// origins are the sites whose pages may use the server, as Access.Origins lists them.
type origins struct {
	exact    []string
	patterns []*regexp.Regexp
}

// parseOrigins reads Access.Origins.
func parseOrigins(list []string) (origins, error) {
	var o origins
	for i, text := range list {
		if !strings.HasPrefix(text, "^") {
			if !request.IsOrigin(text) || strings.Contains(text, "*") {
				return o, fmt.Errorf("Access.Origins[%d]: %q is not of the form https://host; a pattern begins with ^", i, text)
			}
			o.exact = append(o.exact, text)
			continue
		}
		pattern, err := regexp.Compile(text)
		switch {
		case err != nil:
			return o, fmt.Errorf("Access.Origins[%d]: %w", i, err)
		case !isBound(text):
			// Otherwise https://shop.example.evil.example would do.
			return o, fmt.Errorf("Access.Origins[%d]: the pattern %q must begin with ^ and end with $, with alternatives in brackets", i, text)
		}
		o.patterns = append(o.patterns, pattern)
	}
	return o, nil
}

// isBound reports whether a pattern matches from the beginning to the end of a text, and nothing within one.
// Alternatives outside brackets would each be bound on one side only. The parser decides: what looks like a
// bracket or an anchor may be a character.
func isBound(pattern string) bool {
	re, err := syntax.Parse(pattern, syntax.Perl)
	return err == nil && re.Op == syntax.OpConcat && re.Sub[0].Op == syntax.OpBeginText && re.Sub[len(re.Sub)-1].Op == syntax.OpEndText
}

// allow reports whether the pages of an origin may use the server.
func (o origins) allow(origin string) bool {
	return slices.ContainsFunc(o.exact, func(e string) bool { return strings.EqualFold(e, origin) }) ||
		slices.ContainsFunc(o.patterns, func(p *regexp.Regexp) bool { return p.MatchString(origin) })
}

// allowPageOf reports whether an allowed page sent a request.
func (o origins) allowPageOf(r *http.Request) bool {
	origin := r.Header["Origin"]
	return len(origin) == 1 && o.allow(origin[0])
}

// The CORS headers that the pages of allowed origins get. They are those of kube-apiserver, and in
// addition the headers that its clients send.
const (
	corsMethods = "POST, GET, OPTIONS, PUT, DELETE, PATCH"
	corsHeaders = "Content-Type, Content-Length, Accept, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since, If-None-Match"
	corsExposed = "Date, Warning, Retry-After, Audit-Id"
)

// withCORS lets the pages of allowed origins read answers, and answers what a browser asks before it
// sends their requests. Such a question carries no credential, so this comes before authentication.
//
// Source: OPS-06.
func (s *Server) withCORS(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Add("Vary", "Origin") // a cache must not give one origin's answer to another
		if !s.origins.allowPageOf(r) {
			next.ServeHTTP(w, r)
			return
		}
		h.Set("Access-Control-Allow-Origin", r.Header["Origin"][0])
		h.Set("Access-Control-Allow-Credentials", "true")
		h.Set("Access-Control-Expose-Headers", corsExposed)
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			h.Set("Access-Control-Allow-Methods", corsMethods)
			h.Set("Access-Control-Allow-Headers", corsHeaders)
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// withStrictTransport tells browsers to use TLS from now on (OPS-06).
func (s *Server) withStrictTransport(next http.Handler) http.Handler {
	value := strings.Join(s.cfg.http.StrictTransport, "; ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil { // browsers ignore the header in plain text
			w.Header().Set("Strict-Transport-Security", value)
		}
		next.ServeHTTP(w, r)
	})
}
