// Package serviceaccount issues and checks the tokens of service accounts.
//
// [New] makes [Tokens]. They are an authenticator for kindwright.Authenticate, and
// kinds.ServiceAccounts serves the subresource token with them. The signature of a token is verified
// once. Whether the account, the Pod, the Secret or the Node that it is bound to still exist is asked at
// every request, so a deletion counts as soon as it is answered.
//
// Keys come from files, which are read again when they change ([Open]), from memory ([NewKeySet],
// [NewSigner]), or from elsewhere by [Signer] and [KeySource]. [Tokens.Documents] serves what others need
// to check the tokens.
package serviceaccount
