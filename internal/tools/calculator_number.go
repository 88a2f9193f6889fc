package tools

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// maxBits bounds the numerator and the denominator of an exact number: about
// 1,200 digits. 9^9^9 is refused before it is computed.
const maxBits = 4096

var (
	errTooLarge = errors.New("the number is too large")
	errNotReal  = errors.New("the result is not a real number")
)

// number is a fraction, or a float where exact is nil.
type number struct {
	exact *big.Rat
	float float64
}

// exact makes a number of r. A whole number beyond maxBits is an error; a
// fraction beyond it goes on as float, which it is close to.
func exact(r *big.Rat) (number, error) {
	switch {
	case r.Num().BitLen() <= maxBits && r.Denom().BitLen() <= maxBits:
		return number{exact: r}, nil
	case r.IsInt():
		return number{}, errTooLarge
	}
	f, _ := r.Float64()
	return inexact(f)
}

func inexact(f float64) (number, error) {
	switch {
	case math.IsNaN(f):
		return number{}, errNotReal
	case math.IsInf(f, 0):
		return number{}, errTooLarge
	}
	return number{float: f}, nil
}

// parseNumber reads a literal. The exponent is bounded first: it is what makes a
// short text a long number.
func parseNumber(text string) (number, error) {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	if mantissa == "." {
		return number{}, errors.New("a digit is missing at the decimal point")
	}
	if exponent != "" {
		if e, err := strconv.Atoi(exponent); err != nil || e < -maxBits || e > maxBits {
			return number{}, errTooLarge
		}
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return number{}, fmt.Errorf("%q is not a number", cut(text))
	}
	return exact(r)
}

func (n number) value() float64 {
	if n.exact == nil {
		return n.float
	}
	f, _ := n.exact.Float64()
	return f
}

func (n number) isZero() bool { return n.sign() == 0 }

func (n number) sign() int {
	if n.exact != nil {
		return n.exact.Sign()
	}
	switch {
	case n.float > 0:
		return 1
	case n.float < 0:
		return -1
	}
	return 0
}

func negate(n number) number {
	if n.exact == nil {
		return number{float: -n.float}
	}
	return number{exact: new(big.Rat).Neg(n.exact)}
}

// String writes whole numbers and short decimals in full; other fractions with
// 12 decimals; floats with the 15 digits that they keep.
func (n number) String() string {
	if n.exact == nil {
		return strconv.FormatFloat(n.float+0, 'g', 15, 64) // +0 turns -0 into 0
	}
	const longest = 30
	if places, finite := n.exact.FloatPrec(); finite && places <= longest {
		return n.exact.FloatString(places)
	}
	const decimals = 12
	if math.Abs(n.value()) < 1e-3 { // decimals would drop digits that count
		return strconv.FormatFloat(n.value(), 'g', decimals, 64)
	}
	return strings.TrimSuffix(strings.TrimRight(n.exact.FloatString(decimals), "0"), ".")
}

// truncate cuts r to a whole number, towards zero.
func truncate(r *big.Rat) *big.Int { return new(big.Int).Quo(r.Num(), r.Denom()) }

// raise computes base to the power of exponent: exactly if the exponent is whole
// and the result not too long.
func raise(base, exponent number) (number, error) {
	if base.isZero() && exponent.sign() < 0 {
		return number{}, errors.New("division by zero")
	}
	if base.exact == nil || exponent.exact == nil || !exponent.exact.IsInt() {
		if root, ok := halfPower(base, exponent); ok {
			return root, nil
		}
		return inexact(math.Pow(base.value(), exponent.value()))
	}
	bits := max(base.exact.Num().BitLen(), base.exact.Denom().BitLen())
	if bits <= 1 { // 0, 1 and -1 do not grow: only whether the exponent is odd counts
		return number{exact: unitPower(base.exact, exponent.exact.Num())}, nil
	}
	n := exponent.exact.Num()
	if n.CmpAbs(big.NewInt(maxBits)) > 0 || int64(bits-1)*abs(n.Int64()) > maxBits {
		if base.exact.IsInt() && exponent.sign() > 0 {
			return number{}, errTooLarge
		}
		return inexact(roundedPower(base.exact, n))
	}
	size := new(big.Int).Abs(n)
	z := new(big.Rat).SetFrac(new(big.Int).Exp(base.exact.Num(), size, nil), new(big.Int).Exp(base.exact.Denom(), size, nil))
	if n.Sign() < 0 {
		z.Inv(z)
	}
	return exact(z)
}

func unitPower(base *big.Rat, n *big.Int) *big.Rat {
	switch {
	case n.Sign() == 0, base.Sign() < 0 && n.Bit(0) == 0:
		return big.NewRat(1, 1)
	}
	return base
}

// roundedPower computes a power whose exact fraction would be too long. A float
// would lose a digit or three on the way of 1.0001^10000, as compound interest is
// computed; 256 bits lose none that are shown.
func roundedPower(base *big.Rat, n *big.Int) float64 {
	const precision = 256
	x := new(big.Float).SetPrec(precision).SetRat(base)
	z := new(big.Float).SetPrec(precision).SetInt64(1)
	size := new(big.Int).Abs(n)
	for i := range size.BitLen() {
		if size.Bit(i) != 0 {
			z.Mul(z, x)
		}
		x.Mul(x, x)
	}
	if n.Sign() < 0 {
		z.Quo(new(big.Float).SetInt64(1), z)
	}
	f, _ := z.Float64()
	return f
}

func abs(n int64) int64 { return max(n, -n) }

// halfPower is the exact square root that x^0.5 asks for, if there is one.
func halfPower(base, exponent number) (number, bool) {
	if exponent.exact == nil || exponent.exact.Cmp(big.NewRat(1, 2)) != 0 {
		return number{}, false
	}
	return exactRoot(base)
}

// exactRoot returns the square root of a fraction of two squares.
func exactRoot(n number) (number, bool) {
	if n.exact == nil || n.exact.Sign() < 0 {
		return number{}, false
	}
	num, denom := new(big.Int).Sqrt(n.exact.Num()), new(big.Int).Sqrt(n.exact.Denom())
	root := new(big.Rat).SetFrac(num, denom)
	return number{exact: root}, new(big.Rat).Mul(root, root).Cmp(n.exact) == 0
}
