package encrypt

import (
	"context"
	"time"

	"github.com/kindwright/kindwright/internal/protowire"
	"github.com/kindwright/kindwright/internal/unary"
)

// Service is a key management service: version 2 of Kubernetes' protocol for plugins. [Socket] speaks
// it with a process. All methods are safe for concurrent use.
type Service interface {
	// Status says how the service is, and which key it encrypts with.
	Status(ctx context.Context) (Status, error)
	// Encrypt encrypts a data key. The id is for the logs of both sides.
	Encrypt(ctx context.Context, id string, plain []byte) (DataKey, error)
	// Decrypt reverses Encrypt.
	Decrypt(ctx context.Context, id string, key DataKey) (plain []byte, err error)
}

// Status is what a service says about itself.
type Status struct {
	Version string // of the protocol: v2 or v2beta1
	Healthz string // ok, or what is wrong
	KeyID   string // the key that Encrypt uses now
}

// DataKey is a data key that a service has encrypted. All of it is stored beside each value.
type DataKey struct {
	Ciphertext  []byte            // at most 1 KiB
	KeyID       string            // the key of the service; at most 1 KiB
	Annotations map[string][]byte // by domain name; at most 32 KiB
}

// Socket returns the service of a process that listens at a Unix socket. A call ends after timeout, by
// default 3 seconds.
func Socket(path string, timeout time.Duration) Service {
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	return &socket{unary.New(path, "v2.KeyManagementService", timeout)}
}

const defaultTimeout = 3 * time.Second

type socket struct{ client *unary.Client }

func (s *socket) Close() { s.client.Close() }

func (s *socket) Status(ctx context.Context) (st Status, err error) {
	answer, err := s.client.Call(ctx, "Status", nil)
	if err != nil {
		return st, err
	}
	err = protowire.Each(answer, func(f protowire.Field) error {
		switch f.Number {
		case 1:
			st.Version = string(f.Bytes)
		case 2:
			st.Healthz = string(f.Bytes)
		case 3:
			st.KeyID = string(f.Bytes)
		}
		return nil
	})
	return st, err
}

func (s *socket) Encrypt(ctx context.Context, id string, plain []byte) (key DataKey, err error) {
	answer, err := s.client.Call(ctx, "Encrypt", appendBytes(appendBytes(nil, 1, plain), 2, id))
	if err != nil {
		return key, err
	}
	err = protowire.Each(answer, func(f protowire.Field) error {
		switch f.Number {
		case 1:
			key.Ciphertext = f.Bytes
		case 2:
			key.KeyID = string(f.Bytes)
		case 3:
			name, value, err := parseAnnotation(f.Bytes)
			if err != nil {
				return err
			}
			if key.Annotations == nil {
				key.Annotations = map[string][]byte{}
			}
			key.Annotations[name] = value
		}
		return nil
	})
	return key, err
}

func (s *socket) Decrypt(ctx context.Context, id string, key DataKey) (plain []byte, err error) {
	request := appendBytes(appendBytes(appendBytes(nil, 1, key.Ciphertext), 2, id), 3, key.KeyID)
	for name, value := range key.Annotations {
		request = appendBytes(request, 4, appendBytes(appendBytes(nil, 1, name), 2, value))
	}
	answer, err := s.client.Call(ctx, "Decrypt", request)
	if err != nil {
		return nil, err
	}
	err = protowire.Each(answer, func(f protowire.Field) error {
		if f.Number == 1 {
			plain = f.Bytes
		}
		return nil
	})
	return plain, err
}
