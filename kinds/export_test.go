package kinds

import "github.com/kindwright/kindwright/registry"

// PolicyKinds are the kinds of [Policies] without what belongs to them.
func PolicyKinds() registry.Definition { return policyKinds{} }
