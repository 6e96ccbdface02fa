package kindwright

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/internal/profile"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
)

// Debug shows what goes on inside a running server, below /debug. These paths are authorized like any
// other; profiles tell much about a program and its data, so give them to operators only.
//
// Source: OPS-05.
type Debug struct {
	// Profiles serves the runtime's profiles below /debug/pprof, for go tool pprof. DELETE /metrics then
	// has the counters of /metrics begin again.
	Profiles bool

	// Backup serves a copy of the store at /debug/backup, if the backend is a [storage.Backup]. The
	// copy has all data, secrets included. An answer that breaks off is no backup.
	Backup bool

	// SetLogLevel changes how much the program logs. PUT /debug/flags/v calls it with the number in the
	// body, and concurrently if several clients ask. Nil: the path is not served.
	SetLogLevel func(level int) error
}

func (d Debug) apply(c *config) error { merge(&c.debug, d); return nil }

// isDebug reports whether a request is for one of the paths of Debug.
func (s *Server) isDebug(info *request.Info) bool {
	switch d := &s.cfg.debug; {
	case info.IsResource || len(info.Segments) < 2 || info.Segments[0] != "debug":
		return false
	case info.Segments[1] == "backup":
		return d.Backup && len(info.Segments) == 2
	case info.Segments[1] == "pprof":
		return d.Profiles && len(info.Segments) <= 3
	default:
		return d.SetLogLevel != nil && len(info.Segments) == 3 && info.Segments[1] == "flags" && info.Segments[2] == "v"
	}
}

func (s *Server) serveDebug(w http.ResponseWriter, r *http.Request, info *request.Info) {
	if info.Segments[1] == "flags" {
		s.setLogLevel(w, r)
		return
	}
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		negotiate.WriteError(w, r, status.MethodNotAllowed(meta.GroupResource{}, info.Verb))
		return
	}
	if info.Segments[1] == "backup" {
		s.serveBackup(w, r)
		return
	}
	profile.Serve(w, r, strings.Join(info.Segments[2:], ""))
}

// serveBackup sends a copy of the store. If it fails after its beginning, the connection breaks, so
// that no client takes half a copy for a whole one.
func (s *Server) serveBackup(w http.ResponseWriter, r *http.Request) {
	backup, ok := storage.As[storage.Backup](s.backend)
	if !ok {
		negotiate.WriteError(w, r, status.BadRequest("this server's store cannot copy itself"))
		return
	}
	out := &copied{w: w, connection: http.NewResponseController(w)}
	_, err := backup.BackupTo(r.Context(), out)
	switch {
	case err == nil:
	case out.begun:
		s.cfg.log.Error(err, "a backup broke off")
		panic(http.ErrAbortHandler)
	case errors.Is(err, storage.ErrNoSpace):
		s.cfg.log.Error(err, "a backup failed")
		negotiate.WriteError(w, r, status.ServiceUnavailable(noSpaceForCopy).WithCause(err))
	default:
		s.cfg.log.Error(err, "a backup failed")
		negotiate.WriteError(w, r, status.Internal(err))
	}
}

// noSpaceForCopy is what a client is told whose backup does not fit beside the store.
const noSpaceForCopy = "the server has no space left to make the copy (507 Insufficient Storage); " +
	"have its administrator make room where its temporary files are, and try again"

// copied is the answer that is a copy of the store.
type copied struct {
	w          http.ResponseWriter
	connection *http.ResponseController
	begun      bool
}

// backupWrite is how long the client may take to read a piece of a backup.
const backupWrite = time.Minute

// Write sends a piece. The time limits of the host are for answers of a usual size.
func (c *copied) Write(p []byte) (int, error) {
	if !c.begun {
		c.begun = true
		c.w.Header().Set("Content-Type", "application/octet-stream")
		c.w.Header().Set("Cache-Control", "no-store")
	}
	_ = c.connection.SetWriteDeadline(time.Now().Add(backupWrite)) // where that is possible
	return c.w.Write(p)
}

// maxLogLevel is far above any that a program uses.
const maxLogLevel = 100

func (s *Server) setLogLevel(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPut {
		w.Header().Set("Allow", http.MethodPut)
		negotiate.WriteError(w, r, status.MethodNotAllowed(meta.GroupResource{}, strings.ToLower(r.Method)))
		return
	}
	level, err := readLogLevel(r.Body)
	if err != nil {
		negotiate.WriteError(w, r, status.BadRequest("%v", err))
		return
	}
	if err := s.callSetLogLevel(level); err != nil {
		negotiate.WriteError(w, r, status.Internal(err))
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = fmt.Fprintf(w, "successfully set the log level to %d", level) // the client may have gone
}

func (s *Server) callSetLogLevel(level int) (err error) {
	defer guard.Recover(&err, "Debug.SetLogLevel")
	return s.cfg.debug.SetLogLevel(level)
}

func readLogLevel(body io.Reader) (int, error) {
	const enough = 8 // for any level
	text, err := io.ReadAll(io.LimitReader(body, enough+1))
	if err != nil {
		return 0, errors.New("the request body could not be read completely")
	}
	level, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 8)
	if err != nil || level > maxLogLevel || len(text) > enough {
		return 0, fmt.Errorf("the body must be a log level from 0 to %d", maxLogLevel)
	}
	return int(level), nil
}
