// Package spelling compares names of header fields as careless servers read them: those that hand
// fields on in an environment do not tell X_Remote_User or X.Remote.User from X-Remote-User, because
// the name of a variable has no other sign than an underscore (security vector A1). It does not know
// which fields matter. Package authn does, for fields that name users, and package aggregate for what
// ends at a server that sends requests on.
package spelling
