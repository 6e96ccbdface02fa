// Package jwt accepts signed tokens of OpenID Connect issuers.
//
// A [Configuration] is the document AuthenticationConfiguration: which issuers there are, which
// audiences and claims their tokens must have, and which users they stand for. [New] and [Open] make
// an authenticator of it; Open follows a file.
//
//	token → issuer → signature → times → audience → rules → user → rules
//
// Tokens are compact JWS, signed with an asymmetric algorithm. A token belongs to the issuer whose
// URL it names, letter by letter; tokens of other issuers are left to other authenticators. The
// header of a token decides nothing but which of the published keys is tried, and with which of the
// accepted algorithms.
//
// The keys come from the issuer: its discovery document names them. They are fetched in the
// background, over HTTPS alone, without following redirects, at most 1 MiB in at most ten seconds,
// and at most once in ten seconds, however many tokens name an unknown key. Keys that are known stay
// in use while an issuer cannot be reached. A key that the issuer takes out counts five minutes
// longer at most.
//
// A token that has expired is not accepted, and neither is one whose nbf or iat is more than a minute
// ahead. No token makes its sender a user or a member of a group of the system, such as
// system:masters, unless the configuration itself writes "system:". Distributed claims are not
// followed.
//
// What a token proves is remembered under a keyed hash until it expires. The package decides nothing
// else about a user; nothing here has to be asked again when an account is gone.
// Source: AUTHNCFG, AUTHN-13, section J of the security vectors.
package jwt
