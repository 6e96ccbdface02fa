package cel

import (
	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// listsLibrary has isSorted, sum, min, max, indexOf and lastIndexOf.
// Source: CEL-06.
func listsLibrary() []celgo.EnvOption {
	var sorted, smallest, largest, sums []celgo.FunctionOpt
	for _, t := range []*types.Type{
		celgo.IntType, celgo.UintType, celgo.DoubleType, celgo.BoolType, celgo.DurationType, celgo.TimestampType, celgo.StringType, celgo.BytesType,
	} {
		name, list := typeID(t), signature(celgo.ListType(t))
		sorted = append(sorted, celgo.MemberOverload("list_"+name+"_is_sorted_bool", list, celgo.BoolType, unary(isSorted)))
		largest = append(largest, celgo.MemberOverload("list_"+name+"_max_"+name, list, t, unary(extreme("max", types.IntNegOne))))
		smallest = append(smallest, celgo.MemberOverload("list_"+name+"_min_"+name, list, t, unary(extreme("min", types.IntOne))))
	}
	for _, zero := range []ref.Val{types.Int(0), types.Uint(0), types.Double(0), types.Duration{}} {
		t := zero.Type().(*types.Type)
		sums = append(sums, celgo.MemberOverload("list_"+typeID(t)+"_sum_"+typeID(t), signature(celgo.ListType(t)), t, unary(sumFrom(zero))))
	}
	a := celgo.TypeParamType("A")
	return []celgo.EnvOption{
		celgo.Function("isSorted", sorted...),
		celgo.Function("max", largest...),
		celgo.Function("min", smallest...),
		celgo.Function("sum", sums...),
		celgo.Function("indexOf", celgo.MemberOverload("list_a_index_of_int", signature(celgo.ListType(a), a), celgo.IntType, binary(indexOf))),
		celgo.Function("lastIndexOf", celgo.MemberOverload("list_a_last_index_of_int", signature(celgo.ListType(a), a), celgo.IntType, binary(lastIndexOf))),
	}
}

// typeID returns the name of a type in the names of overloads.
func typeID(t *types.Type) string {
	switch t {
	case celgo.DurationType:
		return "duration"
	case celgo.TimestampType:
		return "timestamp"
	}
	return t.TypeName()
}

func isSorted(list traits.Lister) ref.Val {
	var before traits.Comparer
	for it := list.Iterator(); it.HasNext() == types.True; {
		item := it.Next()
		next, ok := item.(traits.Comparer)
		if !ok {
			return types.MaybeNoSuchOverloadErr(item)
		}
		if before != nil && before.Compare(item) == types.IntOne {
			return types.False
		}
		before = next
	}
	return types.True
}

func sumFrom(zero ref.Val) func(traits.Lister) ref.Val {
	return func(list traits.Lister) ref.Val {
		sum := zero
		for it := list.Iterator(); it.HasNext() == types.True; {
			adder, ok := sum.(traits.Adder)
			if !ok {
				return types.MaybeNoSuchOverloadErr(sum)
			}
			sum = adder.Add(it.Next())
		}
		return sum
	}
}

// extreme returns a function that keeps the first item unless comparing it with another one gives
// worse.
func extreme(name string, worse ref.Val) func(traits.Lister) ref.Val {
	return func(list traits.Lister) ref.Val {
		var best traits.Comparer
		for it := list.Iterator(); it.HasNext() == types.True; {
			item := it.Next()
			next, ok := item.(traits.Comparer)
			if !ok {
				return types.MaybeNoSuchOverloadErr(item)
			}
			if best == nil || best.Compare(item) == worse {
				best = next
			}
		}
		if best == nil {
			return types.NewErr("%s called on empty list", name)
		}
		return best.(ref.Val)
	}
}

func indexOf(list traits.Lister, item ref.Val) ref.Val {
	n := list.Size().(types.Int)
	for i := range n {
		if list.Get(i).Equal(item) == types.True {
			return i
		}
	}
	return types.IntNegOne
}

func lastIndexOf(list traits.Lister, item ref.Val) ref.Val {
	for i := list.Size().(types.Int) - 1; i >= 0; i-- {
		if list.Get(i).Equal(item) == types.True {
			return i
		}
	}
	return types.IntNegOne
}
