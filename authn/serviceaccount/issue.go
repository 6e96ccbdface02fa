package serviceaccount

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/jws"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// Account is the service account that a token is asked for.
type Account struct {
	Namespace, Name string
	UID             meta.UID
}

// Issue answers a request for a token of an account. It looks the object up that the token is to be bound
// to; a Pod must run as the account. The request has been validated. The answer is a copy of it with a
// token.
//
// Errors are *status.Error: NotFound for an object that is absent, Conflict for one of another uid,
// ServiceUnavailable without a Signer.
func (t *Tokens) Issue(ctx context.Context, account Account, asked TokenRequest, get Get) (*TokenRequest, error) {
	if t == nil || t.options.Signer == nil {
		return nil, status.ServiceUnavailable("this server has no key to sign tokens with")
	}
	if asked.UID != "" && asked.UID != account.UID {
		return nil, status.Conflict(meta.GroupResource{Group: "authentication.k8s.io", Resource: "TokenRequest"}, account.Name, fmt.Sprintf(
			"the UID in the token request (%s) does not match the UID of the service account (%s)", asked.UID, account.UID))
	}
	p := &private{Namespace: account.Namespace, Account: objectID{account.Name, string(account.UID)}}
	if ref := asked.Spec.BoundObjectRef; ref != nil {
		if err := p.bind(ctx, account, *ref, get); err != nil {
			return nil, err
		}
	}
	out := asked
	out.Name, out.Namespace, out.UID = account.Name, account.Namespace, account.UID
	now := time.Now().Truncate(time.Second)
	out.CreationTimestamp = meta.NewTime(now)
	out.Spec.Default()
	if len(out.Spec.Audiences) == 0 {
		out.Spec.Audiences = t.Audiences()
	}
	if most := int64(t.options.MaxLifetime / time.Second); most > 0 && *out.Spec.ExpirationSeconds > most {
		request.Warn(ctx, fmt.Sprintf("requested expiration of %d seconds shortened to %d seconds", *out.Spec.ExpirationSeconds, most))
		out.Spec.ExpirationSeconds = &most
	}
	id := newID()
	begin, lasts := seconds(now.Unix()), seconds(*out.Spec.ExpirationSeconds)
	out.Status.ExpirationTimestamp = meta.NewTime((begin + lasts).at())
	if t.options.Extend && p.Pod != nil && lasts == oldProgramsAsk && subset(out.Spec.Audiences, t.audiences) {
		p.WarnAfter, lasts = begin+lasts, extended
		if most := seconds(t.options.MaxExtended / time.Second); most > 0 {
			lasts = min(lasts, most)
		}
	}
	token, err := t.sign(ctx, &claims{
		Audience: out.Spec.Audiences, Expiry: begin + lasts, IssuedAt: begin, Issuer: t.options.Issuers[0], ID: id, Private: p,
		NotBefore: begin, Subject: userName(account.Namespace, account.Name),
	})
	if err != nil {
		return nil, err
	}
	request.ExchangeFrom(ctx).Annotate("authentication.kubernetes.io/issued-credential-id", credentialID(id))
	out.Status.Token = token
	return &out, nil
}

// subset reports whether all has each of some.
func subset(some, all []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

// bind adds the claims about the object that a token is bound to.
func (p *private) bind(ctx context.Context, account Account, ref BoundObjectReference, get Get) error {
	kind := ref.Kind
	if strings.Contains(ref.APIVersion, "/") {
		kind = "" // of another group; the version does not matter, as in Kubernetes
	}
	id := &objectID{Name: ref.Name}
	var e *watch.Entry
	var err error
	switch kind {
	case "Pod":
		p.Pod = id
		if e, err = get(ctx, pods, account.Namespace, ref.Name); err == nil {
			err = p.bindPod(ctx, account, e, get)
		}
	case "Secret":
		p.Secret = id
		e, err = get(ctx, secrets, account.Namespace, ref.Name)
	case "Node":
		p.Node = id
		e, err = get(ctx, nodes, "", ref.Name)
	default:
		group, version, ok := strings.Cut(ref.APIVersion, "/")
		if !ok {
			group, version = "", ref.APIVersion
		}
		return status.BadRequest("cannot bind token to object of type %s/%s, Kind=%s", group, version, ref.Kind)
	}
	if err != nil {
		return err
	}
	if id.UID = string(e.UID()); ref.UID != "" && ref.UID != e.UID() {
		return status.Conflict(meta.GroupResource{Resource: ref.Kind}, ref.Name, fmt.Sprintf(
			"the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID))
	}
	return nil
}

// bindPod checks whom a Pod runs as, and adds the claim about the Node that it runs on. A Node that has
// no object has no uid.
func (p *private) bindPod(ctx context.Context, account Account, pod *watch.Entry, get Get) error {
	var content struct {
		Spec struct {
			Account string `json:"serviceAccountName"`
			Node    string `json:"nodeName"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(pod.AppendJSON(nil), &content); err != nil {
		return status.Internal(fmt.Errorf("read a pod: %w", err))
	}
	if content.Spec.Account != account.Name {
		return status.BadRequest("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", account.Name)
	}
	if content.Spec.Node == "" {
		return nil
	}
	node, err := get(ctx, nodes, "", content.Spec.Node)
	if err != nil && !status.IsNotFound(err) {
		return err
	}
	if p.Node = (&objectID{Name: content.Spec.Node}); err == nil {
		p.Node.UID = string(node.UID())
	}
	return nil
}

// maxKeyID bounds the identifier of a key that somebody else signs with.
const maxKeyID = 1024

// sign returns a token with these claims. It does not hand out a token that nobody would accept: the
// signer may be another program.
func (t *Tokens) sign(ctx context.Context, c *claims) (string, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return "", status.Internal(fmt.Errorf("sign a token: %w", err))
	}
	token, err := t.options.Signer.Sign(ctx, text)
	if err == nil {
		err = t.checkSigned(token, text)
	}
	if wrong := (*SignatureError)(nil); errors.As(err, &wrong) {
		return "", status.FromStatus(meta.Status{
			Reason: meta.ReasonInternalError, Message: "Internal error occurred: failed to generate token: " + wrong.Reason,
		}).WithCause(err)
	}
	if err != nil {
		return "", status.Internal(fmt.Errorf("sign a token: %w", err))
	}
	return token, nil
}

// checkSigned reports what a signer returned that is no token with these claims.
func (t *Tokens) checkSigned(token string, text []byte) error {
	algorithm, keyID, payload, err := jws.Parts(token)
	switch {
	case err != nil:
		return err
	case string(payload) != string(text):
		return errors.New("the signer has changed the claims")
	case keyID == "" || len(keyID) > maxKeyID:
		return errors.New("the signer names no key, or one with a name that is too long")
	case !jws.Asymmetric(algorithm):
		return errors.New("the signer names an algorithm that is not accepted")
	}
	return nil
}

// newID returns a random UUID.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
