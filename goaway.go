package kindwright

import (
	"math/rand/v2"
	"net/http"
)

// withGoaway asks the clients of a few HTTP/2 requests to connect anew. The request itself and the
// others on its connection are answered as usual. Source: LIM-11.
func (s *Server) withGoaway(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && rand.Float64() < s.cfg.http.GoawayChance { //nolint:gosec // load is spread, nothing is kept secret
			w.Header().Set("Connection", "close") // net/http sends GOAWAY after the answer
		}
		next.ServeHTTP(w, r)
	})
}
