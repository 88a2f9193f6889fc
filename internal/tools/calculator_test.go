package tools

import (
	"strings"
	"testing"
)

func TestCalculate(t *testing.T) {
	for _, test := range []struct{ expression, want string }{
		{"2 + 2 * (3 - 1)", "6"},
		{"0.1+0.2", "0.3"},
		{"2^100", "1267650600228229401496703205376"},
		{"2**10", "1024"},
		{"1/3", "0.333333333333"},
		{"2/3", "0.666666666667"},
		{"-2/3", "-0.666666666667"},
		{"1/3*3", "1"},
		{"1/8", "0.125"},
		{"1/3000000", "3.33333333333e-07"},
		{"10^20/3", "33333333333333333333.333333333333"},
		{"1+1/(3*10^20)", "1"},
		{"123456789012345678 * 987654321098765432", "121932631137021794322511812221002896"},
		{"19.99 * 3", "59.97"},
		{"1e3", "1000"},
		{"1.5E-3", "0.0015"},
		{"010", "10"},
		{".5 + 5.", "5.5"},
		{"-2^2", "-4"},
		{"(-2)^2", "4"},
		{"2^-1", "0.5"},
		{"2^3^2", "512"},
		{"2*-3", "-6"},
		{"2--3", "5"},
		{"+-+4", "-4"},
		{"10-4-3", "3"},
		{"100/10/2", "5"},
		{"7%3", "1"},
		{"-7%3", "-1"},
		{"7.5%2", "1.5"},
		{"2*7%4", "2"},
		{"0^0", "1"},
		{"0^5", "0"},
		{"(-1)^1000001", "-1"},
		{"(-1)^10^30", "1"},
		{"(2/3)^3", "0.296296296296"},
		{"1.0001^10000", "2.71814592682522"},
		{"(1+0.05/365)^10950", "4.48122868852452"},
		{"1.0001^-10000", "0.367897834377124"},
		{"0.5^10^30", "0"},
		{"(1+0.05/12)^360", "4.467744314006"},
		{"4^0.5", "2"},
		{"2^0.5", "1.4142135623731"},
		{"sqrt(16)", "4"},
		{"sqrt(1/4)", "0.5"},
		{"sqrt(2)", "1.4142135623731"},
		{"sqrt(2)^2", "2"},
		{"sqrt(10^200)", "1" + strings.Repeat("0", 100)},
		{"abs(-3.5)", "3.5"},
		{"abs(sin(-1))", "0.841470984807897"},
		{"round(2.5)", "3"},
		{"round(-2.5)", "-3"},
		{"round(2.675, 2)", "2.68"},
		{"round(1234, -2)", "1200"},
		{"round(pi, 2)", "3.14"},
		{"floor(-1.5)", "-2"},
		{"floor(1.5)", "1"},
		{"ceil(1.2)", "2"},
		{"ceil(-1.2)", "-1"},
		{"ceil(3)", "3"},
		{"min(3, 1, 2)", "1"},
		{"max(1/3, 0.3, pi)", "3.14159265358979"},
		{"sin(pi)", "0"},
		{"sin(pi/6)", "0.5"},
		{"cos(0)", "1"},
		{"tan(pi/4)", "1"},
		{"ln(e)", "1"},
		{"ln(1)", "0"},
		{"log(1000)", "3"},
		{"log(8, 2)", "3"},
		{"exp(0)", "1"},
		{"exp(700)", "1.014232054735e+304"},
		{"pow(2, 8)", "256"},
		{"SQRT(9) + Pi*0", "3"},
		{"sin(1)^2 + cos(1)^2", "1"},
		{"1/pi", "0.318309886183791"},
		{"pi % 3", "0.141592653589793"},
		{"-(pi-pi)", "0"},
		{"3 × 4 ÷ 2 − 1", "5"},
		{"2*π", "6.28318530717959"},
		{" \n1\t+ 1 ", "2"},
		{strings.Repeat("(", 90) + "1" + strings.Repeat(")", 90), "1"},
	} {
		t.Run(test.expression, func(t *testing.T) {
			if got, err := calculate(test.expression); err != nil || got != test.want {
				t.Errorf("got %s, %v, want %s", got, err, test.want)
			}
		})
	}
}

func TestCalculateErrors(t *testing.T) {
	for _, test := range []struct{ expression, want string }{
		{"", "empty"},
		{"  ", "empty"},
		{"1/0", "division by zero"},
		{"1%0", "division by zero"},
		{"pi/(pi-pi)", "division by zero"},
		{"0^-1", "division by zero"},
		{"9**9**9", "too large"},
		{"9^9^9^9", "too large"},
		{"(10^1000)^1000", "too large"},
		{"10^1200*10^1200", "too large"},
		{"1e999999999", "too large"},
		{"1e99999999999999999999", "too large"},
		{"1.5^10^30", "too large"},
		{"exp(1000)", "too large"},
		{"sqrt(-1)", "not a real number"},
		{"(-8)^(1/3)", "not a real number"},
		{"ln(0)", "only above zero"},
		{"log(-1)", "only above zero"},
		{"log(8, 1)", "division by zero"},
		{"tan(pi/2)", "not defined"},
		{"round(1, 0.5)", "number of decimals"},
		{"round(1, 1e6)", "number of decimals"},
		{"1,234.5", "without thousands separators"},
		{"3,5 * 2", "decimal point"},
		{"sqrt(1,5)", "sqrt takes 1 argument; commas separate arguments"},
		{"pow(2)", "pow takes 2 arguments"},
		{"log(1,2,3)", "log takes 1 or 2 arguments"},
		{"1 000", "an operator is missing before the number at character 3"},
		{"1.2.3", "one decimal point"},
		{"2^-9223372036854775808 + x", "unknown"},
		{"15%", "write 15/100 for 15%"},
		{"200 * (15%)", "write 15/100"},
		{"2(3+1)", "an operator is missing at character 2; write *"},
		{"2pi", "write *"},
		{"0x10", "write *"},
		{"2+", "ends too early"},
		{"(1+2", "ends too early"},
		{"min()", "unexpected ')'"},
		{"1)", "unexpected ')' at character 2"},
		{"*2", "unexpected '*' at character 1"},
		{"2+2=", "= is not possible"},
		{"5!", "unexpected '!'"},
		{"€5", "unexpected '€' at character 1"},
		{".", "digit is missing"},
		{"foo(1)", `"foo" is unknown; there are pi, e, sqrt`},
		{"x + 1", `"x" is unknown`},
		{"sqrt 4", "sqrt needs parentheses"},
		{"__import__('os')", `"__import__" is unknown`},
		{strings.Repeat("(", 101) + "1", "nested deeper"},
		{strings.Repeat("-", 101) + "1", "nested deeper"},
		{strings.Repeat("1+", 500) + "1", "too long"},
	} {
		t.Run(test.expression, func(t *testing.T) {
			got, err := calculate(test.expression)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %s, error %v, want one with %q", got, err, test.want)
			}
		})
	}
}

func TestCalculator(t *testing.T) {
	tool, err := NewCalculator()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := call(t, tool, `{"expression":"2 + 2 * (3 - 1)"}`); got != "6" || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
	if got, err := call(t, tool, `{"expression":42}`); got != "42" || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := call(t, tool, `{"expression":"1/0"}`); err == nil || err.Error() != "expression: division by zero" {
		t.Errorf("error %v", err)
	}
}

// Whatever is computed ends, and what it prints can be computed again.
func FuzzCalculate(f *testing.F) {
	for _, seed := range []string{"1+2*3", "9**9**9", "round(2.675,2)/3", "-(pi^e)%1e-3", "sqrt(2)^log(8,2)", "1,5", "((((", "max(1,2,min(3))", "2e", "tan(1e300)"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		got, err := calculate(expression)
		if err != nil {
			return
		}
		if len(got) > 1300 {
			t.Fatalf("%d bytes", len(got))
		}
		if len(got) > maxExpressionBytes {
			return
		}
		if again, err := calculate(got); err != nil {
			t.Errorf("%q is %s, which is %s, %v", expression, got, again, err)
		}
	})
}

func BenchmarkCalculateWorst(b *testing.B) {
	expression := strings.Repeat("(7/3)^1300%", 90) + "2"
	for b.Loop() {
		_, _ = calculate(expression)
	}
}
