package markdown

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// unicodeMath writes a simple LaTeX formula in Unicode. It gives false for what
// Unicode has no characters for; then the source itself is the better reading.
func unicodeMath(tex string) (string, bool) {
	p := latex{rest: tex}
	p.sequence(0)
	if p.failed || p.rest != "" {
		return "", false
	}
	return p.text(), true
}

// latex reads a formula from left to right and writes what it means.
type latex struct {
	rest   string
	out    strings.Builder
	failed bool
}

// maxDepth bounds nested groups.
const maxDepth = 20

// text gives what was written, with single spaces and none at line ends.
func (p *latex) text() string {
	var lines []string
	for line := range strings.SplitSeq(p.out.String(), "\n") {
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// sequence reads up to the end or an unmatched }, which it leaves.
func (p *latex) sequence(depth int) {
	if depth > maxDepth {
		p.failed = true
	}
	for !p.failed && p.rest != "" {
		r, size := utf8.DecodeRuneInString(p.rest)
		if r == '}' {
			return
		}
		p.rest = p.rest[size:]
		switch r {
		case '\\':
			p.command(depth)
		case '{':
			p.sequence(depth + 1)
			p.expect('}')
		case '^', '_':
			p.script(r, depth)
		case '&', '%', '#':
			p.failed = true
		case '\n', '\t', '~':
			p.out.WriteByte(' ')
		case '\'':
			p.out.WriteRune('′')
		default:
			p.out.WriteRune(r)
		}
	}
}

func (p *latex) expect(r rune) {
	rest, ok := strings.CutPrefix(p.rest, string(r))
	p.rest = rest
	p.failed = p.failed || !ok
}

// argument reads a group, a command or one character, and gives what it means.
func (p *latex) argument(depth int) string {
	p.rest = strings.TrimLeft(p.rest, " ")
	if p.rest == "" {
		p.failed = true
		return ""
	}
	sub := latex{rest: p.rest}
	switch r, size := utf8.DecodeRuneInString(p.rest); r {
	case '{':
		sub.rest = sub.rest[1:]
		sub.sequence(depth + 1)
		sub.expect('}')
	case '\\':
		sub.rest = sub.rest[1:]
		sub.command(depth + 1)
	case '}', '^', '_', '&':
		sub.failed = true
	default:
		sub.out.WriteString(p.rest[:size])
		sub.rest = sub.rest[size:]
	}
	p.rest, p.failed = sub.rest, p.failed || sub.failed
	return sub.text()
}

// raw reads a group without looking into it.
func (p *latex) raw() string {
	p.expect('{')
	s, rest, ok := strings.Cut(p.rest, "}")
	if !ok || strings.ContainsAny(s, `\{$`) {
		p.failed = true
	}
	p.rest = rest
	return s
}

// script writes what stands above (^) or below (_) the line.
func (p *latex) script(kind rune, depth int) {
	table := subscripts
	if kind == '^' {
		table = superscripts
	}
	arg := p.argument(depth)
	switch arg {
	case "∘", "°": // 90^\circ
		p.out.WriteRune('°')
		return
	case "′":
		p.out.WriteString(arg)
		return
	}
	for _, r := range strings.ReplaceAll(arg, " ", "") {
		s, ok := paired(table, r)
		if !ok {
			p.failed = true
			return
		}
		p.out.WriteRune(s)
	}
}

// command reads what follows a backslash.
func (p *latex) command(depth int) {
	if depth > maxDepth || p.rest == "" {
		p.failed = true
		return
	}
	length := strings.IndexFunc(p.rest, func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') })
	if length < 0 {
		length = len(p.rest)
	}
	if length == 0 {
		p.escape()
		return
	}
	name := p.rest[:length]
	p.rest = strings.TrimLeft(p.rest[length:], " ")
	switch name {
	case "frac", "dfrac", "tfrac":
		above, below := p.argument(depth), p.argument(depth)
		p.out.WriteString(grouped(above, false) + "/" + grouped(below, true))
	case "sqrt":
		p.root(depth)
	case "text", "textbf", "textit", "textrm", "mbox":
		p.out.WriteString(p.raw())
	case "mathrm", "mathbf", "mathit", "mathsf", "operatorname", "boldsymbol", "boxed":
		p.out.WriteString(p.argument(depth))
	case "mathbb":
		s, ok := paired(doubleStruck, firstRune(p.argument(depth)))
		p.out.WriteRune(s)
		p.failed = p.failed || !ok
	case "left", "right", "big", "Big", "bigl", "bigr":
		p.rest = strings.TrimPrefix(p.rest, ".")
	case "quad", "qquad", "displaystyle", "limits":
		p.out.WriteByte(' ')
	case "sin", "cos", "tan", "cot", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh",
		"log", "ln", "lg", "exp", "lim", "max", "min", "sup", "inf", "det", "gcd", "deg", "dim", "ker", "arg", "mod", "Pr":
		p.function(name)
	default:
		p.symbol(name)
	}
}

// escape reads a command of one character.
func (p *latex) escape() {
	r, size := utf8.DecodeRuneInString(p.rest)
	p.rest = p.rest[size:]
	switch r {
	case '\\':
		p.out.WriteByte('\n')
	case ',', ';', ':', ' ', '\n':
		p.out.WriteByte(' ')
	case '!':
	case '{', '}', '%', '$', '_', '&', '#':
		p.out.WriteRune(r)
	case '|':
		p.out.WriteRune('‖')
	default:
		p.failed = true
	}
}

// root writes \sqrt[n]{x}.
func (p *latex) root(depth int) {
	sign := "√"
	if rest, ok := strings.CutPrefix(p.rest, "["); ok {
		index, rest, _ := strings.Cut(rest, "]")
		p.rest = rest
		switch strings.TrimSpace(index) {
		case "2":
		case "3":
			sign = "∛"
		case "4":
			sign = "∜"
		default:
			p.failed = true
		}
	}
	p.out.WriteString(sign + grouped(p.argument(depth), true))
}

// function writes a name such as sin, apart from what stands around it.
func (p *latex) function(name string) {
	if last, _ := utf8.DecodeLastRuneInString(p.out.String()); isWord(last) {
		p.out.WriteByte(' ')
	}
	p.out.WriteString(name)
	if isWord(firstRune(p.rest)) || strings.HasPrefix(p.rest, `\`) {
		p.out.WriteByte(' ')
	}
}

// symbol writes a named character.
func (p *latex) symbol(name string) {
	if s, ok := named(operators, name); ok {
		p.out.WriteString(" " + s + " ")
		return
	}
	s, ok := named(symbols, name)
	p.out.WriteString(s)
	p.failed = p.failed || !ok
}

// grouped puts s in parentheses unless it is one operand anyway; below a line or
// a root, factors side by side are no single operand.
func grouped(s string, below bool) string {
	depth, factors, digits := 0, 0, false
	for _, r := range s {
		switch r {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		}
		isDigit := r >= '0' && r <= '9' || r == '.'
		if depth == 0 && r != ')' && r != ']' {
			if strings.ContainsRune("+-/=<>* ", r) || unicode.Is(unicode.Sm, r) && r != '√' {
				return "(" + s + ")"
			}
			if unicode.IsLetter(r) && !unicode.Is(unicode.Lm, r) || isDigit && !digits {
				factors++
			}
		}
		digits = isDigit
	}
	if below && factors > 1 {
		return "(" + s + ")"
	}
	return s
}

func firstRune(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

// paired finds r among the first ones of table's pairs and gives the second.
func paired(table string, r rune) (rune, bool) {
	for table != "" {
		from, n := utf8.DecodeRuneInString(table)
		to, m := utf8.DecodeRuneInString(table[n:])
		if from == r {
			return to, true
		}
		table = table[n+m:]
	}
	return 0, false
}

// named finds a name in a table of names and characters.
func named(table, name string) (string, bool) {
	_, rest, ok := strings.Cut(table, " "+name+" ")
	if !ok {
		return "", false
	}
	s, _, _ := strings.Cut(rest, " ")
	return s, true
}

const (
	superscripts = "0⁰1¹2²3³4⁴5⁵6⁶7⁷8⁸9⁹+⁺-⁻−⁻=⁼(⁽)⁾" +
		"aᵃbᵇcᶜdᵈeᵉfᶠgᵍhʰiⁱjʲkᵏlˡmᵐnⁿoᵒpᵖrʳsˢtᵗuᵘvᵛwʷxˣyʸzᶻ" +
		"AᴬBᴮDᴰEᴱGᴳHᴴIᴵJᴶKᴷLᴸMᴹNᴺOᴼPᴾRᴿTᵀUᵁVⱽWᵂβᵝγᵞδᵟθᶿφᵠχᵡ"
	subscripts = "0₀1₁2₂3₃4₄5₅6₆7₇8₈9₉+₊-₋−₋=₌(₍)₎" +
		"aₐeₑhₕiᵢjⱼkₖlₗmₘnₙoₒpₚrᵣsₛtₜuᵤvᵥxₓβᵦγᵧρᵨφᵩχᵪ"
	doubleStruck = "C\u2102H\u210DN\u2115P\u2119Q\u211AR\u211DZ\u2124A𝔸B𝔹D𝔻E𝔼F𝔽G𝔾I𝕀J𝕁K𝕂L𝕃M𝕄O𝕆S𝕊T𝕋U𝕌V𝕍W𝕎X𝕏Y𝕐1𝟙"

	// operators stand between spaces.
	operators = " times × cdot · div ÷ pm ± mp ∓ ast ∗ star ⋆ circ ∘ bullet • oplus ⊕ otimes ⊗ " +
		"leq ≤ le ≤ geq ≥ ge ≥ neq ≠ ne ≠ approx ≈ equiv ≡ sim ∼ simeq ≃ cong ≅ propto ∝ ll ≪ gg ≫ lt < gt > " +
		"in ∈ notin ∉ ni ∋ subset ⊂ subseteq ⊆ supset ⊃ supseteq ⊇ cup ∪ cap ∩ setminus ∖ " +
		"to → rightarrow → leftarrow ← leftrightarrow ↔ Rightarrow ⇒ Leftarrow ⇐ Leftrightarrow ⇔ " +
		"implies ⟹ iff ⟺ mapsto ↦ longrightarrow ⟶ land ∧ wedge ∧ lor ∨ vee ∨ perp ⊥ parallel ∥ mid ∣ models ⊨ vdash ⊢ "

	symbols = " alpha α beta β gamma γ delta δ epsilon ε varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι kappa κ " +
		"lambda λ mu μ nu ν xi ξ pi π rho ρ sigma σ varsigma ς tau τ upsilon υ phi φ varphi φ chi χ psi ψ omega ω " +
		"Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω " +
		"infty ∞ sum ∑ prod ∏ int ∫ iint ∬ oint ∮ partial ∂ nabla ∇ forall ∀ exists ∃ nexists ∄ emptyset ∅ varnothing ∅ " +
		"neg ¬ lnot ¬ angle ∠ degree ° prime ′ hbar ħ ell ℓ Re ℜ Im ℑ aleph ℵ therefore ∴ because ∵ " +
		"dots … ldots … cdots ⋯ lvert | rvert | vert | lVert ‖ rVert ‖ langle ⟨ rangle ⟩ lfloor ⌊ rfloor ⌋ lceil ⌈ rceil ⌉ " +
		"lbrace { rbrace } uparrow ↑ downarrow ↓ triangle △ square □ checkmark ✓ "
)
