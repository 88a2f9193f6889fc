package tools

import (
	"errors"
	"fmt"
	"math"
	"math/big"
)

// function is one that an expression may call, with the number of its arguments.
type function struct {
	least, most int
	of          func(args []number) (number, error)
}

const anyNumber = maxExpressionBytes

func (f function) count() string {
	switch {
	case f.most == anyNumber:
		return fmt.Sprintf("%d or more arguments", f.least)
	case f.least != f.most:
		return fmt.Sprintf("%d or %d arguments", f.least, f.most)
	case f.least == 1:
		return "1 argument"
	}
	return fmt.Sprintf("%d arguments", f.least)
}

var functions = map[string]function{
	"sqrt":  {1, 1, squareRoot},
	"abs":   {1, 1, func(a []number) (number, error) { return absolute(a[0]), nil }},
	"round": {1, 2, round},
	"floor": {1, 1, func(a []number) (number, error) { return whole(a[0], -1) }},
	"ceil":  {1, 1, func(a []number) (number, error) { return whole(a[0], 1) }},
	"min":   {1, anyNumber, func(a []number) (number, error) { return extreme(a, -1), nil }},
	"max":   {1, anyNumber, func(a []number) (number, error) { return extreme(a, 1), nil }},
	"sin":   {1, 1, wave(math.Sin)},
	"cos":   {1, 1, wave(math.Cos)},
	"tan":   {1, 1, tangent},
	"ln":    {1, 1, func(a []number) (number, error) { return logarithm(a[0], math.Log) }},
	"log":   {1, 2, logBase},
	"exp":   {1, 1, func(a []number) (number, error) { return inexact(math.Exp(a[0].value())) }},
	"pow":   {2, 2, func(a []number) (number, error) { return raise(a[0], a[1]) }},
}

func absolute(n number) number {
	if n.sign() < 0 {
		return negate(n)
	}
	return n
}

func squareRoot(args []number) (number, error) {
	if root, ok := exactRoot(args[0]); ok {
		return root, nil
	}
	return inexact(math.Sqrt(args[0].value()))
}

// extreme returns the argument that is furthest in the direction of sign.
func extreme(args []number, sign int) number {
	best := args[0]
	for _, n := range args[1:] {
		if compare(n, best)*sign > 0 {
			best = n
		}
	}
	return best
}

func compare(a, b number) int {
	if a.exact != nil && b.exact != nil {
		return a.exact.Cmp(b.exact)
	}
	switch x, y := a.value(), b.value(); {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// whole cuts n to a whole number in the direction of sign.
func whole(n number, sign int) (number, error) {
	r := fraction(n)
	z := new(big.Rat).SetInt(truncate(r))
	if !r.IsInt() && r.Sign() == sign {
		z.Add(z, big.NewRat(int64(sign), 1))
	}
	return exact(z)
}

// round rounds half away from zero, as taught at school, to a number of decimals.
func round(args []number) (number, error) {
	digits := 0
	if len(args) == 2 {
		d := fraction(args[1])
		if !d.IsInt() || !d.Num().IsInt64() || abs(d.Num().Int64()) > 100 {
			return number{}, errors.New("the second argument is the number of decimals, from -100 to 100")
		}
		digits = int(d.Num().Int64())
	}
	scale := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(abs(int64(digits))), nil))
	if digits < 0 {
		scale.Inv(scale)
	}
	scaled := new(big.Rat).Mul(fraction(args[0]), scale)
	half := big.NewRat(int64(scaled.Sign()), 2)
	z := new(big.Rat).SetInt(truncate(scaled.Add(scaled, half)))
	return exact(z.Quo(z, scale))
}

// fraction returns n as a fraction; that of a float is what it shows as, so that
// rounding sees 2.675 and not the binary number just below it.
func fraction(n number) *big.Rat {
	if n.exact != nil {
		return n.exact
	}
	r, _ := new(big.Rat).SetString(n.String())
	return r
}

// wave is a function of an angle in radians. Because pi is a float, sin(pi) would
// be 1.2e-16; what is that close to zero is zero.
func wave(f func(float64) float64) func([]number) (number, error) {
	return func(args []number) (number, error) {
		x := args[0].value()
		y := f(x)
		if math.Abs(y) < 1e-15 && math.Abs(x) > 1 {
			y = 0
		}
		return inexact(y)
	}
}

func tangent(args []number) (number, error) {
	cos, err := wave(math.Cos)(args)
	if err == nil && cos.isZero() {
		return number{}, errors.New("it is not defined there")
	}
	sin, err := wave(math.Sin)(args)
	if err != nil {
		return number{}, err
	}
	return inexact(sin.value() / cos.value())
}

// logBase takes the base as second argument; without it the base is 10.
func logBase(args []number) (number, error) {
	if len(args) == 1 {
		return logarithm(args[0], math.Log10)
	}
	top, err := logarithm(args[0], math.Log)
	if err != nil {
		return number{}, err
	}
	bottom, err := logarithm(args[1], math.Log)
	if err != nil {
		return number{}, err
	}
	return apply('/', top, bottom)
}

func logarithm(n number, f func(float64) float64) (number, error) {
	if n.sign() <= 0 {
		return number{}, errors.New("it is defined only above zero")
	}
	return inexact(f(n.value()))
}
