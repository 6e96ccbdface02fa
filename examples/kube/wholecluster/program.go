package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A program is one of the processes of a cluster. Its output goes to a file of its name.
type program struct {
	name, path string
	args       []string
	dir        string

	running *exec.Cmd
	ended   chan error
	spent   time.Duration // processor time of earlier runs
}

// start starts the program. Its log continues that of earlier runs.
func (p *program) start(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(p.dir, p.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, p.path, p.args...)
	c.Dir, c.Stdout, c.Stderr, c.WaitDelay = p.dir, log, log, time.Minute
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	if err := c.Start(); err != nil {
		return errors.Join(fmt.Errorf("start %s: %w", p.name, err), log.Close())
	}
	ended := make(chan error, 1)
	p.running, p.ended = c, ended
	go func() { ended <- errors.Join(c.Wait(), log.Close()) }()
	return nil
}

// stop ends the program as an operator would, and waits for it.
func (p *program) stop() {
	if p.running == nil {
		return
	}
	_ = p.running.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	var err error
	select {
	case err = <-p.ended:
	case <-time.After(time.Minute):
		_ = p.running.Process.Kill() // it does not end
		err = <-p.ended
	}
	if err != nil {
		fmt.Printf("%s ended: %v\n", p.name, err)
	}
	if s := p.running.ProcessState; s != nil {
		p.spent += s.UserTime() + s.SystemTime()
	}
	p.running = nil
}

// died returns an error if the program has ended by itself.
func (p *program) died() error {
	select {
	case err := <-p.ended:
		p.ended <- err
		return fmt.Errorf("%s has ended: %w; its log is %s", p.name, err, filepath.Join(p.dir, p.name+".log"))
	default:
		return nil
	}
}

// memory returns the resident and the highest resident memory, in MiB.
func (p *program) memory() (now, most int64) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.running.Process.Pid) + "/status")
	if err != nil {
		return 0, 0 // not on Linux
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		kib, _ := strconv.ParseInt(words[1], 10, 64) // other lines hold text
		switch words[0] {
		case "VmRSS:":
			now = kib >> 10
		case "VmHWM:":
			most = kib >> 10
		}
	}
	return now, most
}

// processor returns the processor time of all runs.
func (p *program) processor() time.Duration {
	const ticks = 100 // per second, on every Linux that Go runs on
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.running.Process.Pid) + "/stat")
	if err != nil {
		return p.spent // not on Linux
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	words := strings.Fields(rest)
	if len(words) < 13 {
		return p.spent
	}
	user, _ := strconv.ParseInt(words[11], 10, 64)
	system, _ := strconv.ParseInt(words[12], 10, 64)
	return p.spent + time.Duration(user+system)*time.Second/ticks
}
