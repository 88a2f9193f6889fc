package tools

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"agentd/internal/agent"
)

//go:embed calculator.md
var calculatorText string

// Bounds of an expression. With maxBits of a number they bound the time of any
// evaluation to milliseconds, so that it needs no deadline.
const (
	maxExpressionBytes = 1000
	maxDepth           = 100
)

type calculatorArgs struct {
	Expression string `json:"expression" jsonschema:"such as 2*(3+4)^2"`
}

// NewCalculator makes calculator: arithmetic on exact fractions, and on floats
// where a function leaves them. It works offline and in bounded time.
func NewCalculator() (agent.Tool, error) {
	run := func(_ context.Context, _ agent.Scope, call Call[calculatorArgs]) (agent.Result, error) {
		text, err := calculate(call.Args.Expression)
		if err != nil {
			return agent.Result{}, fmt.Errorf("expression: %w", err)
		}
		return agent.Result{Text: text}, nil
	}
	return New("calculator", calculatorText, Always[calculatorArgs](agent.ReadOnly, agent.Workspace), run)
}

// calculate evaluates an expression. Operators are those of Python: ^ and **
// bind to the right and closer than the minus before them (-2^2 is -4). The
// remainder has the sign of the dividend, as in Go.
func calculate(expression string) (string, error) {
	if len(expression) > maxExpressionBytes {
		return "", fmt.Errorf("too long; the limit is %d characters: split it", maxExpressionBytes)
	}
	// Signs that people and models copy from texts.
	text := strings.NewReplacer("×", "*", "·", "*", "÷", "/", "−", "-", "**", "^", "π", "pi", "\u00a0", " ").Replace(expression)
	p := &parser{text: text}
	value, err := p.expression(0)
	if err == nil && p.next() != 0 {
		err = p.unexpected()
	}
	if err != nil {
		return "", err
	}
	return value.String(), nil
}

// parser evaluates while it reads, by operator precedence (a Pratt parser).
type parser struct {
	text  string
	pos   int // of the next byte, in text
	depth int
	args  int // how many function calls are open
}

// Binding powers: an operator of more power takes its operands first.
const (
	powerSum = iota + 1
	powerProduct
	powerSign
	powerPower
)

func power(operator byte) int {
	switch operator {
	case '+', '-':
		return powerSum
	case '*', '/', '%':
		return powerProduct
	case '^':
		return powerPower
	}
	return 0
}

// expression reads operands as long as the operators between them bind closer
// than least.
func (p *parser) expression(least int) (number, error) {
	if p.depth++; p.depth > maxDepth {
		return number{}, fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	defer func() { p.depth-- }()

	left, err := p.operand()
	for err == nil {
		operator := p.next()
		bind := power(operator)
		if bind <= least {
			return left, nil
		}
		p.pos++
		if operator == '^' {
			bind-- // 2^3^2 is 2^(3^2)
		}
		var right number
		if right, err = p.expression(bind); err == nil {
			left, err = apply(operator, left, right)
		}
	}
	return number{}, err
}

func (p *parser) operand() (number, error) {
	switch c := p.next(); {
	case c == '-' || c == '+':
		p.pos++
		// The sign takes powers with it, and an exponent may have one: 2^-1.
		value, err := p.expression(powerSign)
		if err != nil || c == '+' {
			return value, err
		}
		return negate(value), nil
	case c == '(':
		p.pos++
		value, err := p.expression(0)
		if err != nil {
			return number{}, err
		}
		return value, p.expect(')')
	case isDigit(c) || c == '.':
		return p.literal()
	case isLetter(c):
		return p.name()
	default:
		return number{}, p.unexpected()
	}
}

// literal reads 12, 1.5, .5 or 6.02e23. The e is an exponent only before digits.
func (p *parser) literal() (number, error) {
	start := p.pos
	p.digits()
	if p.peek(0) == '.' {
		p.pos++
		p.digits()
	}
	if e := p.peek(0); e == 'e' || e == 'E' {
		sign := 1
		if s := p.peek(1); s == '+' || s == '-' {
			sign = 2
		}
		if isDigit(p.peek(sign)) {
			p.pos += sign
			p.digits()
		}
	}
	return parseNumber(p.text[start:p.pos])
}

func (p *parser) digits() {
	for isDigit(p.peek(0)) {
		p.pos++
	}
}

// name reads a constant, or a function with its arguments.
func (p *parser) name() (number, error) {
	start := p.pos
	for isLetter(p.peek(0)) || isDigit(p.peek(0)) {
		p.pos++
	}
	name := strings.ToLower(p.text[start:p.pos])
	switch name {
	case "pi":
		return inexact(math.Pi)
	case "e":
		return inexact(math.E)
	}
	f, ok := functions[name]
	if !ok {
		return number{}, fmt.Errorf("%q is unknown; there are pi, e, sqrt, abs, round, floor, ceil, min, max, sin, cos, tan, ln, log, exp and pow", cut(name))
	}
	if p.next() != '(' {
		return number{}, fmt.Errorf("%s needs parentheses: %s(…)", name, name)
	}
	p.pos++
	p.args++
	var args []number
	for {
		value, err := p.expression(0)
		if err != nil {
			return number{}, err
		}
		args = append(args, value)
		if p.next() != ',' {
			break
		}
		p.pos++
	}
	p.args--
	if err := p.expect(')'); err != nil {
		return number{}, err
	}
	if len(args) < f.least || len(args) > f.most {
		return number{}, fmt.Errorf("%s takes %s; commas separate arguments, never digits", name, f.count())
	}
	value, err := f.of(args)
	if err != nil {
		return number{}, fmt.Errorf("%s: %w", name, err)
	}
	return value, nil
}

func (p *parser) expect(c byte) error {
	if p.next() != c {
		return p.unexpected()
	}
	p.pos++
	return nil
}

// next skips spaces and returns the byte after them, 0 at the end.
func (p *parser) next() byte {
	for strings.IndexByte(" \t\r\n", p.peek(0)) >= 0 {
		p.pos++
	}
	return p.peek(0)
}

func (p *parser) peek(ahead int) byte {
	if p.pos+ahead >= len(p.text) {
		return 0
	}
	return p.text[p.pos+ahead]
}

// unexpected says what is wrong at the next byte and, where people and models
// are known to err, how it is written here.
func (p *parser) unexpected() error {
	before := strings.TrimRight(p.text[:p.pos], " \t\r\n")
	switch c := p.next(); {
	case c == 0 && before == "":
		return errors.New("empty; give one such as 2*(3+4)")
	case strings.HasSuffix(before, "%"):
		return errors.New("% is the remainder and needs a number after it; write 15/100 for 15%")
	case c == 0:
		return errors.New("it ends too early: a number or ) is missing")
	case c == ',' && p.args == 0:
		return errors.New("a comma separates only the arguments of a function; write 1234.5, without thousands separators and with a decimal point")
	case isDigit(c) || c == '.':
		return fmt.Errorf("an operator is missing before the number at character %d; write numbers without spaces and with one decimal point", p.character())
	case isLetter(c) || c == '(':
		return fmt.Errorf("an operator is missing at character %d; write * between factors", p.character())
	case c == '=':
		return errors.New("= is not possible; give only what is to be computed")
	default:
		r, _ := utf8.DecodeRuneInString(p.text[p.pos:])
		return fmt.Errorf("unexpected %s at character %d", strconv.QuoteRune(r), p.character())
	}
}

func (p *parser) character() int { return utf8.RuneCountInString(p.text[:p.pos]) + 1 }

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_' }

// apply computes left operator right.
func apply(operator byte, left, right number) (number, error) {
	if operator == '^' {
		return raise(left, right)
	}
	if (operator == '/' || operator == '%') && right.isZero() {
		return number{}, errors.New("division by zero")
	}
	if left.exact == nil || right.exact == nil {
		a, b := left.value(), right.value()
		switch operator {
		case '+':
			return inexact(a + b)
		case '-':
			return inexact(a - b)
		case '*':
			return inexact(a * b)
		case '/':
			return inexact(a / b)
		default:
			return inexact(math.Mod(a, b))
		}
	}
	a, b, z := left.exact, right.exact, new(big.Rat)
	switch operator {
	case '+':
		z.Add(a, b)
	case '-':
		z.Sub(a, b)
	case '*':
		z.Mul(a, b)
	case '/':
		z.Quo(a, b)
	default:
		whole := truncate(z.Quo(a, b))
		z.Sub(a, z.Mul(new(big.Rat).SetInt(whole), b))
	}
	return exact(z)
}
