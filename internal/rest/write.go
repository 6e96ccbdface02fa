package rest

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/internal/patch"
	"github.com/kindwright/kindwright/internal/protobuf"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/internal/yaml"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

func (c *call) create() error {
	if err := c.info.Query.ValidateWrite("CreateOptions"); err != nil {
		return err
	}
	if c.sub != nil {
		return c.act(func(body []byte) (*registry.Result, error) {
			return c.at.Create(c.r.Context(), body, c.writeOptions())
		})
	}
	return c.write(http.StatusOK, func(ctx context.Context) (*registry.Result, error) {
		body, err := c.body(c.served.Kind.Messages)
		if err != nil {
			return nil, err
		}
		return c.at.Create(ctx, body, c.writeOptions())
	})
}

func (c *call) update() error {
	if err := c.info.Query.ValidateWrite("UpdateOptions"); err != nil {
		return err
	}
	if c.sub != nil && c.sub.Acts(c.info.Verb) {
		return c.act(func(body []byte) (*registry.Result, error) {
			return c.at.Update(c.r.Context(), body, c.writeOptions())
		})
	}
	return c.write(http.StatusOK, func(ctx context.Context) (*registry.Result, error) {
		c.weigh()
		body, err := c.body(c.taken().Messages)
		if err != nil {
			return nil, err
		}
		return c.at.Update(ctx, body, c.writeOptions())
	})
}

func (c *call) patch() error {
	types := c.served.Kind.Patches
	if c.sub != nil {
		types = c.sub.Patches(c.served.Kind)
	}
	if x := request.ExchangeFrom(c.r.Context()); x.CBOR && slices.Contains(types, meta.ApplyPatch) {
		types = append(slices.Clone(types), meta.ApplyCBORPatch)
	}
	sent, err := patch.ParseType(strings.Join(c.r.Header["Content-Type"], ","), types...) // two types are none
	if err != nil {
		return err
	}
	kind := sent
	if sent == meta.ApplyCBORPatch {
		kind = meta.ApplyPatch
	}
	if err := c.info.Query.ValidatePatch(kind == meta.ApplyPatch); err != nil {
		return err
	}
	return c.write(http.StatusOK, func(ctx context.Context) (*registry.Result, error) {
		c.weigh()
		sentBody, err := negotiate.ReadRaw(c.w, c.r, negotiate.MaxBodyBytes)
		body := sentBody
		switch {
		case err != nil:
		case sent == meta.ApplyCBORPatch:
			body, err = negotiate.FromCBOR(body, negotiate.MaxBodyBytes)
		case kind == meta.ApplyPatch:
			body, err = appliedJSON(body)
			c.yaml = sentBody
		}
		if err != nil {
			return nil, err
		}
		c.record().KeepRequest(body)
		return c.at.Patch(ctx, registry.PatchRequest{Type: kind, Body: body}, c.writeOptions())
	})
}

// weigh says how much is decoded beside the body: the object that it changes.
func (c *call) weigh() { request.ExchangeFrom(c.r.Context()).Changes = c.at.Length() }

// appliedJSON returns the body of an apply, YAML or JSON whatever its type says (PATCH-05), as JSON.
func appliedJSON(body []byte) ([]byte, error) {
	if json.Valid(body) == nil {
		return body, nil
	}
	return negotiate.FromYAML(body, negotiate.MaxBodyBytes)
}

// write agrees on the form of the answer before anything is changed, so that nobody is told 406 about a change that
// happened.
func (c *call) write(code int, do func(context.Context) (*registry.Result, error)) error {
	form, err := negotiate.Negotiate(c.r, c.offer())
	if err != nil {
		return err
	}
	result, err := do(c.r.Context())
	request.ExchangeFrom(c.r.Context()).Body.Release() // what was decoded; the client may take its time to read
	if err != nil {
		return err
	}
	if result.Created {
		code = http.StatusCreated
	}
	if result.Entry == nil {
		return c.answerDraft(form, code, result.Document)
	}
	return c.answerObject(form, code, result.Entry)
}

// answerDraft sends what a dry run would have created, in the form that was asked for. It has no version.
func (c *call) answerDraft(form negotiate.Result, code int, document []byte) error {
	r := c.served.Kind
	if form.As == negotiate.Object {
		return c.document(form, code, r.Messages, r.APIVersion(), r.Names.Kind, document)
	}
	if form.MediaType == negotiate.Protobuf {
		form.MediaType = negotiate.JSON // whose versions can be taken out again
	}
	draft, err := c.served.Draft(document)
	if err != nil {
		return status.Internal(fmt.Errorf("read what a dry run made: %w", err))
	}
	shown, err := c.written(form, draft)
	if err != nil {
		return err
	}
	if shown, err = unversioned(shown); err != nil {
		return status.Internal(fmt.Errorf("read what was written of a dry run: %w", err))
	}
	return c.send(c.output().Write(c.w, c.r, form, code, shown))
}

// unversioned is a document, and the objects in the rows of a table, without their versions.
func unversioned(document []byte) ([]byte, error) {
	t, err := json.DecodeTree(document, json.TreeOptions{})
	if err != nil {
		return nil, err
	}
	drop := func(v any) {
		object, _ := v.(map[string]any)
		metadata, _ := object["metadata"].(map[string]any)
		delete(metadata, "resourceVersion")
	}
	drop(t)
	object, _ := t.(map[string]any)
	rows, _ := object["rows"].([]any)
	for _, row := range rows {
		if row, ok := row.(map[string]any); ok {
			drop(row["object"])
		}
	}
	return json.AppendTree(make([]byte, 0, len(document)), t)
}

// body reads the body of the request as JSON. d is what it is read with when it comes as protobuf.
func (c *call) body(d *protobuf.Descriptor) ([]byte, error) {
	return c.bodyUpTo(negotiate.MaxBodyBytes, d)
}

// maxDeleteOptions limits the bytes of DeleteOptions, of which a few hundred are enough (S1).
const maxDeleteOptions = 64 << 10

// bodyUpTo is body for a document of at most limit bytes.
func (c *call) bodyUpTo(limit int64, d *protobuf.Descriptor) (body []byte, err error) {
	if c.isProtobuf() {
		body, err = c.readProtobuf(limit, d)
	} else {
		// Whether the caller proved who they are by something a browser does not send of itself (B17).
		user, ok := authn.UserFrom(c.r.Context())
		body, err = negotiate.ReadBody(c.w, c.r, negotiate.BodyOptions{
			Limit: limit, Authenticated: ok && !user.IsAnonymous(), YAML: func(sent []byte) { c.yaml = sent },
		})
	}
	c.record().KeepRequest(body)
	return body, err
}

func (c *call) writeOptions() registry.WriteOptions {
	q := &c.info.Query
	o := registry.WriteOptions{
		DryRun:          q.IsDryRun(),
		FieldManager:    q.FieldManager,
		DefaultManager:  managerOf(c.r.UserAgent()),
		Force:           q.Force != nil && *q.Force,
		FieldValidation: q.FieldValidation,
	}
	if sent := c.yaml; sent != nil {
		o.Repeated = func() []string { return yaml.Repeated(sent) }
	}
	if c.opts.MayCreate != nil && c.info.Verb != request.VerbCreate { // of what a PUT or an apply finds absent (UPDATE-10)
		o.MayCreate = func(ctx context.Context) error { return c.opts.MayCreate(ctx, c.info) }
	}
	return o
}

// managerOf is the field manager of a client that names none: what its User-Agent says before the first slash (SSA-23).
func managerOf(userAgent string) string {
	name, _, _ := strings.Cut(userAgent, "/")
	if len(name) <= request.MaxFieldManagerBytes && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) {
		return name
	}
	var b strings.Builder
	for _, r := range name {
		if unicode.IsPrint(r) && r != utf8.RuneError && b.Len()+utf8.RuneLen(r) <= request.MaxFieldManagerBytes {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// unsafeDeletion is the annotation of audit records of deletions of objects that could not be read.
const unsafeDeletion = "kindwright.dev/unsafe-delete"

func (c *call) delete() error {
	form, err := negotiate.Negotiate(c.r, c.offer())
	if err != nil {
		return err
	}
	q, o, err := c.deleteOptions()
	if err != nil {
		return err
	}
	result, err := c.at.Delete(c.r.Context(), o)
	if err != nil {
		return err
	}
	if !result.Removed {
		code := http.StatusOK
		if q.OrphanDependents != nil && !*q.OrphanDependents {
			code = http.StatusAccepted // DEL-13
		}
		return c.answerObject(form, code, result.Entry)
	}
	r := c.served.Resource
	if o.IgnoreReadError {
		request.ExchangeFrom(c.r.Context()).Annotate(unsafeDeletion, "the record could not be read and was removed; no finalizer, rule or plugin had a part in it")
	}
	if r.Deletion.AnswerObject && result.Entry != nil {
		return c.answerObject(form, http.StatusOK, result.Entry)
	}
	details := &meta.StatusDetails{Name: c.at.Target.Name, Group: r.Group, Kind: r.Plural}
	if result.Entry != nil {
		details.UID = result.Entry.UID()
	}
	return c.answerSuccess(form, details)
}

func (c *call) deleteCollection() error {
	form, err := negotiate.Negotiate(c.r, c.offer())
	if err != nil {
		return err
	}
	q := c.info.Query
	q.SendInitialEvents = nil // accepted without effect (READ-05)
	if err := cmp.Or(q.ValidateList(), q.ValidateContinue()); err != nil {
		return err
	}
	lr, err := readRequest(&q)
	if err != nil {
		return err
	}
	_, o, err := c.deleteOptions()
	if err != nil {
		return err
	}
	if o.IgnoreReadError {
		f := &status.Fields{}
		f.At("ignoreStoreReadErrorWithClusterBreakingPotential").Invalid(true, "is not allowed with DELETECOLLECTION, try again after removing the option")
		return status.Invalid(meta.GroupKind{Group: "meta." + q.GroupDomain(), Kind: "DeleteOptions"}, "", f.Errors())
	}
	if _, err := c.at.DeleteCollection(c.r.Context(), lr, o); err != nil {
		return err
	}
	r := c.served.Resource
	return c.answerSuccess(form, &meta.StatusDetails{Group: r.Group, Kind: r.Plural}) // READ-04
}

// answerSuccess sends a Status that says that nothing is left to say (DEL-14).
func (c *call) answerSuccess(form negotiate.Result, details *meta.StatusDetails) error {
	success := meta.Status{TypeMeta: meta.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: meta.StatusSuccess, Details: details}
	c.record().KeepStatus(success)
	document, err := json.Marshal(success)
	if err != nil {
		return status.Internal(err)
	}
	var d *protobuf.Descriptor
	if form.MediaType == negotiate.Protobuf { // describing it is some work
		d = c.proto.status()
	}
	return c.document(form, http.StatusOK, d, "v1", "Status", document)
}
