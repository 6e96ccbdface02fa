package openapi

// How clients prove who they are: with a token in a header. The name is that of Kubernetes, whose
// generated clients look for it. It is an apiKey because OpenAPI v2 has no bearer tokens: users give
// such clients the value of the header, such as "Bearer abc".
const (
	bearerToken            = "BearerToken"
	bearerTokenDescription = "A bearer token: the word Bearer, a space and the token."
	bearerTokenHeader      = "authorization"
	bearerTokenType        = "apiKey"
	bearerTokenPlace       = "header"
	bearerTokenScheme      = `{"` + bearerToken + `":{"description":"` + bearerTokenDescription + `","in":"` + bearerTokenPlace +
		`","name":"` + bearerTokenHeader + `","type":"` + bearerTokenType + `"}}`
)

// bearerToken adds what OpenAPI v2 says in its members security and securityDefinitions.
func (m *message) bearerToken() {
	m.nested(12, func() {
		m.nested(1, func() {
			m.text(1, bearerToken)
			m.nested(2, func() {}) // tokens have no scopes
		})
	})
	m.nested(13, func() {
		m.nested(1, func() {
			m.text(1, bearerToken)
			m.nested(2, func() {
				m.nested(2, func() {
					m.text(1, bearerTokenType)
					m.text(2, bearerTokenHeader)
					m.text(3, bearerTokenPlace)
					m.text(4, bearerTokenDescription)
				})
			})
		})
	})
}
