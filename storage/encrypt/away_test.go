package encrypt_test

import (
	"context"
	"errors"
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

// busy is a service that says of itself that it is well, and cannot decrypt anything now.
type busy struct {
	*vault
	code string
}

func (b *busy) Decrypt(context.Context, string, encrypt.DataKey) ([]byte, error) {
	return nil, &unary.StatusError{Code: b.code, Message: "ask again later"}
}

// A plugin's status is about the plugin. What it says with a code that is about no key is about the service behind
// it, which throttles or is away: lists that go on without the objects would tell clients that they were deleted.
func TestENC_04_ARefusalThatIsAboutNoKey(t *testing.T) {
	for code, away := range map[string]bool{
		"1": true, "4": true, "8": true, "10": true, "14": true, "16": true, // see the codes of gRPC
		"2": false, "3": false, "5": false, "7": false, "9": false, "13": false, "15": false,
	} {
		t.Run("code "+code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := memory.New()
				other := encrypt.OpenPlugin(t.Context(), "kms", &vault{key: "1"}, nil)
				defer other.Close()
				put(t, open(t, db, rule("secrets", encrypt.KMS(other))), secretKey("a"), "value")
				service := &busy{vault: &vault{key: "1"}, code: code}
				p := encrypt.OpenPlugin(t.Context(), "kms", service, nil)
				defer p.Close()
				_, err := open(t, db, rule("secrets", encrypt.KMS(p))).Get(t.Context(), secretKey("a"))
				require.ErrorIs(t, err, storage.ErrUnavailable)
				require.Equal(t, away, errors.Is(err, storage.ErrKeysAway), err)
			})
		})
	}
}
