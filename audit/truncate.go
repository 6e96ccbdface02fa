package audit

import (
	"cmp"
	"fmt"
	"strings"
)

// Truncation bounds the records of a sink. It is off by default.
// Source: AUD-34.
type Truncation struct {
	Enabled bool

	// MaxEventBytes bounds one record. Default 102400. A larger record loses its bodies, and is
	// dropped if it is still too large.
	MaxEventBytes int

	// MaxBatchBytes bounds what is written at once. Default 10485760.
	MaxBatchBytes int
}

// The defaults of Truncation (AUD-28).
const (
	DefaultMaxEventBytes = 100 << 10
	DefaultMaxBatchBytes = 10 << 20
)

// Apply returns the record as the bounds allow it, or ok == false if it must be dropped. It does not
// change data.
func (t Truncation) Apply(data []byte) (out []byte, ok bool) {
	most := t.eventBytes()
	if !t.Enabled || len(data) <= most {
		return data, true
	}
	e, err := ParseEvent(data)
	if err != nil {
		return nil, false
	}
	e.RequestObject, e.ResponseObject = nil, nil
	if e.Annotations == nil {
		e.Annotations = map[string]string{}
	}
	e.Annotations[strings.TrimSuffix(e.APIVersion, "/v1")+"/truncated"] = "true"
	out = e.AppendJSON(nil)
	return out, len(out) <= most
}

func (t Truncation) eventBytes() int { return cmp.Or(t.MaxEventBytes, DefaultMaxEventBytes) }

// BatchBytes is how much may be written at once.
func (t Truncation) BatchBytes() int { return cmp.Or(t.MaxBatchBytes, DefaultMaxBatchBytes) }

// Validate reports bounds that contradict each other. The sink is "log" or "webhook", for the error.
func (t Truncation) Validate(sink string) error {
	switch {
	case !t.Enabled:
		return nil
	case t.MaxEventBytes < 0:
		return fmt.Errorf("invalid audit truncate %s max event size %v, must be a positive number", sink, t.MaxEventBytes)
	case t.BatchBytes() < t.eventBytes():
		return fmt.Errorf("invalid audit truncate %s max batch size %v, must be greater than max event size (%v)", sink, t.BatchBytes(), t.eventBytes())
	}
	return nil
}
