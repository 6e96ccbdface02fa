package kindwright

import "github.com/kindwright/kindwright/internal/request"

// OnReport adds a function that is told of each request that has ended, and whether its connection was broken off.
func (s *Server) OnReport(told func(r Request, aborted bool)) {
	s.reports = append(s.reports, func(x *request.Exchange) { told(RequestFrom(x), x.Aborted()) })
}
