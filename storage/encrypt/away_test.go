package encrypt_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/unary"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/encrypt"
	"github.com/kindwright/kindwright/storage/memory"
)

// refusing is a service that refuses to decrypt, and says of itself that it is well, or not.
type refusing struct {
	*vault
	healthz string
	asked   int
}

func (r *refusing) Status(context.Context) (encrypt.Status, error) {
	r.asked++
	return encrypt.Status{Version: "v2", Healthz: r.healthz, KeyID: "2"}, nil
}

func (r *refusing) Decrypt(context.Context, string, encrypt.DataKey) ([]byte, error) {
	return nil, &unary.StatusError{Code: "13", Message: "it cannot be decrypted"}
}

// What a service said of itself before it refused a key says nothing about that refusal: one record whose key it
// has lost would have the first ones of an outage be taken for lost, too, and lists go on without them. One that
// is not well needs not be asked for each key.
func TestENC_04_AServiceThatWasWellAMomentAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		for _, name := range []string{"a", "b", "c"} { // each with a seed of its own
			p := encrypt.OpenPlugin(t.Context(), "kms", &vault{key: "1"}, nil)
			defer p.Close()
			put(t, open(t, db, rule("secrets", encrypt.KMS(p))), secretKey(name), "value")
		}
		service := &refusing{vault: &vault{}, healthz: "ok"}
		p := encrypt.OpenPlugin(t.Context(), "kms", service, nil)
		defer p.Close()
		e := open(t, db, rule("secrets", encrypt.KMS(p)))
		read := func(name string) error {
			_, err := e.Get(t.Context(), secretKey(name))
			require.ErrorIs(t, err, storage.ErrUnavailable)
			return err
		}
		require.NotErrorIs(t, read("a"), storage.ErrKeysAway)
		service.healthz = "the service behind it is away"
		require.ErrorIs(t, read("b"), storage.ErrKeysAway)
		before := service.asked
		require.ErrorIs(t, read("c"), storage.ErrKeysAway)
		require.Equal(t, before, service.asked)
	})
}
