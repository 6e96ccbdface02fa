package cel

import (
	"errors"
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"strings"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// quantity is an amount such as 1500m or 2Gi: digits times a power of ten. As in Kubernetes, an
// amount that was read from few digits is exact, and whether an amount counts as an integer depends
// on how it was written: 1000m does not, and neither does one of 19 digits.
type quantity struct {
	digits *big.Int
	scale  int  // power of ten
	exact  bool // the digits fit in 64 bits, and no step needed more
}

type quantityValue = extension[quantity]

var (
	errQuantityForm   = errors.New(`quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`)
	errQuantityNumber = errors.New("unable to parse numeric part of quantity")
	errQuantitySuffix = errors.New("unable to parse quantity's suffix")
)

const (
	// maxQuantityDigits and maxQuantityExponent bound what arithmetic costs. Kubernetes has no bounds.
	maxQuantityDigits   = 1000
	maxQuantityExponent = 1000

	exactDigits    = 18 // of which any number fits in 64 bits
	smallestAmount = -9 // amounts are rounded up to billionths
)

// quantitySuffix returns the power that a suffix stands for.
func quantitySuffix(suffix string) (base, exponent int, ok bool) {
	if n := strings.Index("n u m", suffix); len(suffix) == 1 && n >= 0 {
		return 10, -9 + n/2*3, true
	}
	if n := strings.Index("kMGTPE", suffix); len(suffix) == 1 && n >= 0 {
		return 10, 3 + n*3, true
	}
	if n := strings.Index("KiMiGiTiPiEi", suffix); len(suffix) == 2 && n >= 0 && n%2 == 0 {
		return 2, 10 + n/2*10, true
	}
	if suffix == "" {
		return 10, 0, true
	}
	if len(suffix) > 1 && (suffix[0] == 'e' || suffix[0] == 'E') {
		n, err := strconv.ParseInt(suffix[1:], 10, 64)
		return 10, int(n), err == nil && n >= -maxQuantityExponent && n <= maxQuantityExponent
	}
	return 0, 0, false
}

// parseQuantity reads an amount.
// Source: CEL-10.
func parseQuantity(text string) (quantity, error) {
	if text == "" {
		return quantity{}, errQuantityForm
	}
	rest := strings.TrimPrefix(text, "-")
	negative := rest != text
	if !negative {
		rest = strings.TrimPrefix(rest, "+")
	}
	number := strings.TrimLeft(rest, "0123456789")
	whole := strings.TrimLeft(rest[:len(rest)-len(number)], "0")
	var fraction string
	if after, found := strings.CutPrefix(number, "."); found {
		number = strings.TrimLeft(after, "0123456789")
		fraction = after[:len(after)-len(number)]
	}
	letters := strings.TrimLeft(number, "eEinumkKMGTP")
	if exponent := strings.TrimLeft(strings.TrimPrefix(strings.TrimPrefix(letters, "-"), "+"), "0123456789"); exponent != "" ||
		strings.HasPrefix(letters, "-+") {
		return quantity{}, errQuantityForm
	}
	base, exponent, ok := quantitySuffix(number)
	if !ok {
		return quantity{}, errQuantitySuffix
	}
	if len(whole)+len(fraction) > maxQuantityDigits {
		return quantity{}, errQuantityNumber
	}
	digits, ok := new(big.Int).SetString("0"+whole+fraction, 10)
	if !ok {
		return quantity{}, errQuantityNumber
	}
	if negative {
		digits.Neg(digits)
	}
	count := max(len(whole), 1) + len(fraction)
	if base == 2 {
		return binaryQuantity(digits, exponent, len(fraction), count), nil
	}
	q := quantity{digits: digits, scale: exponent - len(fraction), exact: count <= exactDigits}
	if q.scale < smallestAmount || !q.exact {
		q = q.rounded()
	}
	return q, nil
}

// binaryQuantity multiplies by a power of two.
func binaryQuantity(digits *big.Int, exponent, fraction, count int) quantity {
	q := quantity{digits: new(big.Int).Lsh(digits, uint(exponent)), scale: -fraction} //nolint:gosec // 10 to 60
	if fraction == 0 && 15-count-exponent*3/10-1 >= 0 {
		q.exact = true
		return q
	}
	q = q.rounded()
	limit := quantity{digits: big.NewInt(math.MaxInt64)}
	switch {
	case q.compare(limit) > 0:
		return limit
	case q.compare(quantity{digits: big.NewInt(-math.MaxInt64)}) < 0:
		limit.digits.Neg(limit.digits)
		return limit
	}
	return q
}

// rounded rounds away from zero to billionths: whoever asks for something gets something.
func (q quantity) rounded() quantity {
	q.exact = false
	if q.scale >= smallestAmount {
		return q
	}
	divisor := powerOfTen(smallestAmount - q.scale)
	quotient, remainder := new(big.Int).QuoRem(q.digits, divisor, new(big.Int))
	if remainder.Sign() != 0 {
		quotient.Add(quotient, big.NewInt(int64(remainder.Sign())))
	}
	q.digits, q.scale = quotient, smallestAmount
	return q
}

func powerOfTen(n int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}

// at returns the digits at a smaller scale.
func (q quantity) at(scale int) *big.Int {
	if q.scale == scale {
		return q.digits
	}
	return new(big.Int).Mul(q.digits, powerOfTen(q.scale-scale))
}

func (q quantity) compare(o quantity) int {
	scale := min(q.scale, o.scale)
	return q.at(scale).Cmp(o.at(scale))
}

// add returns the sum.
func (q quantity) add(o quantity) quantity {
	if q.exact && o.exact {
		switch {
		case o.digits.Sign() == 0:
			return q
		case q.digits.Sign() == 0:
			return o
		}
	}
	scale := min(q.scale, o.scale)
	a, b := q.at(scale), o.at(scale)
	sum := quantity{digits: new(big.Int).Add(a, b), scale: scale}
	sum.exact = q.exact && o.exact && a.IsInt64() && b.IsInt64() && sum.digits.IsInt64()
	return sum
}

func (q quantity) negated() quantity {
	q.digits = new(big.Int).Neg(q.digits)
	return q
}

// integer returns the amount if it counts as an integer.
func (q quantity) integer() (int64, bool) {
	if !q.exact || q.scale < 0 {
		return 0, false
	}
	if q.scale > bits.UintSize {
		return 0, q.digits.Sign() == 0
	}
	n := q.at(0)
	return n.Int64(), n.IsInt64()
}

func (q quantity) float() float64 {
	f, _ := new(big.Float).SetInt(q.digits).Float64()
	if q.scale == 0 {
		return f
	}
	return f * math.Pow10(q.scale)
}

// quantityLibrary has quantity, isQuantity and arithmetic on quantities.
func quantityLibrary() []celgo.EnvOption {
	is := celgo.ObjectType("kubernetes.Quantity")
	value := func(q quantity) ref.Val {
		return &quantityValue{is: is, data: q, equal: func(a, b quantity) bool { return a.compare(b) == 0 }}
	}
	read := func(name, id string, result *types.Type, f func(quantity) ref.Val) celgo.EnvOption {
		return celgo.Function(name, celgo.MemberOverload(id, signature(is), result, unary(func(q *quantityValue) ref.Val { return f(q.data) })))
	}
	compare := func(name, id string, result *types.Type, f func(int) ref.Val) celgo.EnvOption {
		return celgo.Function(name, celgo.MemberOverload(id, signature(is, is), result,
			binary(func(a, b *quantityValue) ref.Val { return f(a.data.compare(b.data)) })))
	}
	number := func(n types.Int) quantity { return quantity{digits: big.NewInt(int64(n)), exact: true} }
	arithmetic := func(name string, f func(a, b quantity) quantity) celgo.EnvOption {
		return celgo.Function(name,
			celgo.MemberOverload("quantity_"+name, signature(is, is), is, binary(func(a, b *quantityValue) ref.Val { return value(f(a.data, b.data)) })),
			celgo.MemberOverload("quantity_"+name+"_int", signature(is, celgo.IntType), is,
				binary(func(a *quantityValue, n types.Int) ref.Val { return value(f(a.data, number(n))) })),
		)
	}
	return []celgo.EnvOption{
		celgo.Function("quantity", celgo.Overload("string_to_quantity", signature(celgo.StringType), is, unary(func(s types.String) ref.Val {
			q, err := parseQuantity(string(s))
			if err != nil {
				return types.WrapErr(err)
			}
			return value(q)
		}))),
		celgo.Function("isQuantity", celgo.Overload("is_quantity_string", signature(celgo.StringType), celgo.BoolType, unary(func(s types.String) ref.Val {
			_, err := parseQuantity(string(s))
			return types.Bool(err == nil)
		}))),
		celgo.Function("sign", celgo.Overload("quantity_sign", signature(is), celgo.IntType,
			unary(func(q *quantityValue) ref.Val { return types.Int(q.data.digits.Sign()) }))),
		read("asApproximateFloat", "quantity_get_float", celgo.DoubleType, func(q quantity) ref.Val { return types.Double(q.float()) }),
		read("isInteger", "quantity_is_integer", celgo.BoolType, func(q quantity) ref.Val {
			_, ok := q.integer()
			return types.Bool(ok)
		}),
		read("asInteger", "quantity_get_int", celgo.IntType, func(q quantity) ref.Val {
			n, ok := q.integer()
			if !ok {
				return types.NewErr("cannot convert value to integer")
			}
			return types.Int(n)
		}),
		compare("isGreaterThan", "quantity_is_greater_than", celgo.BoolType, func(c int) ref.Val { return types.Bool(c > 0) }),
		compare("isLessThan", "quantity_is_less_than", celgo.BoolType, func(c int) ref.Val { return types.Bool(c < 0) }),
		compare("compareTo", "quantity_compare_to", celgo.IntType, func(c int) ref.Val { return types.Int(c) }),
		arithmetic("add", quantity.add),
		arithmetic("sub", func(a, b quantity) quantity { return a.add(b.negated()) }),
	}
}
