//go:build !linux

package process

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

func cpu(pid int) (time.Duration, error) {
	text, err := ps("time=", pid)
	if err != nil {
		return 0, err
	}
	return parseElapsed(text)
}

func resident(pid int) (int64, error) {
	text, err := ps("rss=", pid)
	if err != nil {
		return 0, err
	}
	kib, err := strconv.ParseInt(text, 10, 64)
	return kib << 10, err
}

func mapped(int) (int64, error) { return 0, ErrUnknown }

func peak(int) (int64, error) { return 0, ErrUnknown }

func resetPeak(int) error { return ErrUnknown }

func ps(what string, pid int) (string, error) {
	out, err := exec.Command("ps", "-o", what, "-p", strconv.Itoa(pid)).Output() //nolint:noctx // ps ends by itself
	if err != nil {
		return "", fmt.Errorf("ps: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
