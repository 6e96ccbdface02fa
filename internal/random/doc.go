// Package random checks properties of code against random input.
//
// [Check] runs a property with many cases. A property draws its input from a [Generator] and
// asserts what holds for all input:
//
//	random.Check(t, func(t *random.T) {
//		s := random.String().Draw(t, "s")
//		require.Equal(t, s, decode(encode(s)))
//	})
//
// A case is a sequence of small choices. When one fails, Check deletes and lowers choices as long
// as the property still fails, and reports what remains together with a seed. The variable
// KINDWRIGHT_SEED with this seed repeats the case. Therefore a property must draw the same values
// from the same choices: sort the keys of a map before you draw for each of them.
package random
