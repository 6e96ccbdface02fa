package negotiate_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/internal/request"
)

// A handler reads the body, negotiates a form and responds. Every failure is a Status document.
func Example() {
	out := &negotiate.Output{Compress: true, Threshold: 128 << 10}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := new(request.Exchange).Begin(r, "", time.Now())
		r = r.WithContext(x)
		form, err := negotiate.Negotiate(r, negotiate.Offer{Table: true})
		if err != nil {
			negotiate.WriteError(w, r, err)
			return
		}
		body, err := negotiate.ReadBody(w, r, negotiate.BodyOptions{})
		if err != nil {
			negotiate.WriteError(w, r, err)
			return
		}
		request.Warn(x, `unknown field "spec.colour"`)
		if err := out.Write(w, r, form, http.StatusCreated, body); err != nil {
			negotiate.WriteError(w, r, err)
		}
	})

	post := func(contentType, accept string) {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("spec:\n  colour: red\n"))
		r.Header.Set("Content-Type", contentType)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("Content-Type"), w.Header()["Warning"])
		fmt.Println(w.Body)
	}
	post("application/yaml", "application/vnd.kubernetes.protobuf, application/json")
	post("text/plain", "application/json")
	// Output:
	// 201 application/json [299 - "unknown field \"spec.colour\""]
	// {"spec":{"colour":"red"}}
	// 415 application/json []
	// {"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the body of the request was in an unknown format - accepted media types include: application/json, application/yaml","reason":"UnsupportedMediaType","code":415}
}
