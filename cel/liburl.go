package cel

import (
	"net/url"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

type urlValue = extension[*url.URL]

// urlLibrary has url, isURL and the functions that read parts of a URL.
// Source: CEL-08.
func urlLibrary() []celgo.EnvOption {
	is := celgo.ObjectType("kubernetes.URL")
	part := func(name, id string, read func(*url.URL) string) celgo.EnvOption {
		return celgo.Function(name, celgo.MemberOverload(id, signature(is), celgo.StringType,
			unary(func(u *urlValue) ref.Val { return types.String(read(u.data)) })))
	}
	parse := func(text types.String) ref.Val {
		// An absolute URL or path is needed. ParseRequestURI takes a fragment for a part of the path.
		_, err := url.ParseRequestURI(string(text))
		if err == nil {
			var u *url.URL
			if u, err = url.Parse(string(text)); err == nil {
				return &urlValue{is: is, data: u, equal: func(a, b *url.URL) bool { return a.String() == b.String() }}
			}
		}
		return types.NewErr("URL parse error during conversion from string: %v", err)
	}
	isURL := func(text types.String) ref.Val {
		_, err := url.ParseRequestURI(string(text))
		return types.Bool(err == nil)
	}
	query := func(u *urlValue) ref.Val {
		values := map[ref.Val]ref.Val{}
		for name, texts := range u.data.Query() {
			values[types.String(name)] = types.NewStringList(types.DefaultTypeAdapter, texts)
		}
		return types.NewRefValMap(types.DefaultTypeAdapter, values)
	}
	return []celgo.EnvOption{
		celgo.Function("url", celgo.Overload("string_to_url", signature(celgo.StringType), is, unary(parse))),
		celgo.Function("isURL", celgo.Overload("is_url_string", signature(celgo.StringType), celgo.BoolType, unary(isURL))),
		part("getScheme", "url_get_scheme", func(u *url.URL) string { return u.Scheme }),
		part("getHost", "url_get_host", func(u *url.URL) string { return u.Host }),
		part("getHostname", "url_get_hostname", (*url.URL).Hostname),
		part("getPort", "url_get_port", (*url.URL).Port),
		part("getEscapedPath", "url_get_escaped_path", (*url.URL).EscapedPath),
		celgo.Function("getQuery", celgo.MemberOverload("url_get_query", signature(is),
			celgo.MapType(celgo.StringType, celgo.ListType(celgo.StringType)), unary(query))),
	}
}
