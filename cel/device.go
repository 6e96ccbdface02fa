package cel

import (
	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
)

// bindingsVersion is that of cel.bind.
const bindingsVersion = 0

// Any is a value that may have any type, and that has no methods before it is known which.
func Any() Type { return Type{is: celgo.AnyType} }

// Device is the variable "device": one that a selector of a claim for devices looks at, with the name of its driver,
// attributes and capacity by domain and name, and whether several claims can have it at once. An environment with it has
// the function cel.bind, too.
func Device() Variable {
	return Variable{
		Name: "device", with: ext.Bindings(ext.BindingsVersion(bindingsVersion)),
		Type: Object("kubernetes.DRADevice", map[string]Type{
			"driver":                   String(),
			"attributes":               Map(Map(Any())),
			"capacity":                 Map(Map(Type{is: celgo.ObjectType("kubernetes.Quantity")})),
			"allowMultipleAllocations": Bool(),
		}),
	}
}
