// Package match decides which requests an admission policy or a webhook is about.
//
// [Resources] is the part of the API that says so: rules with operations, groups, versions, resources
// and names, rules that exclude, and selectors for the labels of objects and of their namespaces.
// [Compile] prepares it, and [Matcher.Match] answers for a request. With the match policy Equivalent, a
// rule that names another served version of the same objects matches as well, and the answer says in
// which version the objects are to be shown.
//
// [Conditions] are expressions that a request must fulfil in addition.
// Source: POL-01.
package match
