package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A question is a write, for the oracle.
type question struct {
	Op, Kind string
	New, Old map[string]any
}

// An answer is what becomes of a write.
type answer struct {
	Code     int                  // 200 of any success; 0 when the oracle panicked
	Message  string               // of a failure
	Causes   []metav1.StatusCause // of a failure
	Object   map[string]any       // what is stored
	Warnings []string
}

func (a answer) succeeded() bool { return a.Code == http.StatusOK }

// An oracle answers as Kubernetes does.
type oracle interface {
	ask(q question) (answer, error)
}

// A process is an oracle that is another program.
type process struct {
	program   *exec.Cmd
	in        io.Closer
	questions *json.Encoder
	answers   *json.Decoder
}

// startProcess starts the oracle. It ends with stop or the context.
func startProcess(ctx context.Context, path string, log io.Writer) (*process, error) {
	program := exec.CommandContext(ctx, path)
	program.Stderr = log
	in, err := program.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := program.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := program.Start(); err != nil {
		return nil, fmt.Errorf("-oracle: %w", err)
	}
	return &process{program: program, in: in, questions: json.NewEncoder(in), answers: json.NewDecoder(bufio.NewReader(out))}, nil
}

// ask implements oracle.
func (p *process) ask(q question) (a answer, err error) {
	if err := p.questions.Encode(q); err != nil {
		return a, fmt.Errorf("oracle: %w", err)
	}
	if err := p.answers.Decode(&a); err != nil {
		return a, fmt.Errorf("oracle: %w", err)
	}
	return a, nil
}

// stop ends the oracle, which stops when there are no more questions.
func (p *process) stop() error {
	return errors.Join(p.in.Close(), p.program.Wait())
}
