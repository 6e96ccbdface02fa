// Package metrics counts what a server does and writes the counts as Prometheus reads them.
//
// A [Registry] belongs to one server. It holds families with a fixed list of labels. A [Vector] is a
// family whose series are made one by one: [Vector.With] resolves the values of its labels once and
// returns the [Counter], [Gauge] or [Histogram] behind them, and the caller keeps that. Counting is
// then an atomic addition: it takes no lock, looks nothing up and allocates nothing.
//
// Values that exist somewhere else already, such as the number of objects of a kind, are not
// counted again: [Registry.Collect] asks for them when somebody scrapes.
//
// [Write] writes the text form. [Registry.Families] returns the same as values of the public package
// metrics, for other forms.
//
// Label values must come from what the server serves, never from a request. A limit on the number of
// series of a vector stands behind that rule, see [Limit]. Package apiserver below this one has the
// families of an API server and keeps the rule for requests.
package metrics
