package expr

import (
	"strconv"
	"strings"
)

// Limits of an expression besides its length.
const (
	maxOperators = 300
	maxOperands  = 100 // of an IN
	maxPath      = 32  // elements of a document path
	maxNesting   = 320 // bounds the recursion; DynamoDB's other limits stop a valid expression before
)

// parser reads an expression. It collects errors besides the syntax in faults and
// reports them after the syntax has proved correct, like DynamoDB.
type parser struct {
	src       string
	tokens    []token
	at        int
	nesting   int
	operators int
	slots     map[string]int
	used      placeholders
	faults    [faultKinds]error // the first of each kind
}

// Kinds of faults, in the order in which they are reported.
const (
	faultParentheses = iota
	faultReserved
	faultFunction
	faultMisuse
	faultSection
	faultKinds
)

func newParser(src string) (*parser, error) {
	if strings.Trim(src, " \t\r\n") == "" {
		return nil, fault("The expression can not be empty;")
	}
	if len(src) > maxSource {
		return nil, faultf("Expression size has exceeded the maximum allowed size; expression size: %d", len(src))
	}
	return &parser{src: src, tokens: lex(src), slots: map[string]int{}}, nil
}

func (p *parser) note(kind int, err error) {
	if p.faults[kind] == nil {
		p.faults[kind] = err
	}
}

// finish checks that the parser has read the whole source and found no faults.
func (p *parser) finish() error {
	if p.peek().kind != tokenEnd {
		return p.syntaxError()
	}
	for _, err := range p.faults {
		if err != nil {
			return err
		}
	}
	if p.operators > maxOperators {
		return faultf("The expression contains too many operators; operator count: %d", p.operators)
	}
	p.used.sort()
	return nil
}

func (p *parser) peek() token { return p.tokens[p.at] }

// take consumes the symbol if it is the next token.
func (p *parser) take(symbol string) bool {
	if t := p.peek(); t.kind != tokenSymbol || t.text != symbol {
		return false
	}
	p.at++
	return true
}

// takeWord consumes the keyword, in any case, if it is the next token.
func (p *parser) takeWord(word string) bool {
	if !p.isWord(word) {
		return false
	}
	p.at++
	return true
}

func (p *parser) isWord(words ...string) bool {
	t := p.peek()
	if t.kind != tokenIdentifier {
		return false
	}
	for _, word := range words {
		if strings.EqualFold(t.text, word) {
			return true
		}
	}
	return false
}

// syntaxError returns an error that shows the next token and its neighbours.
func (p *parser) syntaxError() error {
	t := p.peek()
	from, to := t.from, t.to
	if p.at > 0 {
		from = p.tokens[p.at-1].from
	}
	if p.at+1 < len(p.tokens) && p.tokens[p.at+1].kind != tokenEnd {
		to = p.tokens[p.at+1].to
	}
	if t.kind == tokenEnd && p.at > 0 {
		to = p.tokens[p.at-1].to
	}
	return faultf(`Syntax error; token: "%s", near: "%s"`, t.text, p.src[from:to])
}

// nest calls read with the nesting depth increased by 1.
func (p *parser) nest(read func() (*node, error)) (*node, error) {
	if p.nesting++; p.nesting > maxNesting {
		return nil, faultf("The expression is nested too deeply; levels allowed: %d", maxNesting)
	}
	n, err := read()
	p.nesting--
	return n, err
}

// slot returns the index of a placeholder in its list, and adds it if it is new.
func (p *parser) slot(placeholder string, list *[]string) int {
	n, ok := p.slots[placeholder]
	if !ok {
		n = len(*list)
		*list = append(*list, placeholder)
		p.slots[placeholder] = n
	}
	return n
}

func (p *parser) value() *node {
	n := &node{op: opValue, slot: p.slot(p.peek().text, &p.used.values)}
	p.at++
	return n
}

// path reads a document path; keywords are not names.
func (p *parser) path(keywords ...string) ([]step, error) {
	first, err := p.name(keywords)
	if err != nil {
		return nil, err
	}
	return p.steps([]step{first}, keywords)
}

// steps reads the rest of a path behind its first name.
func (p *parser) steps(path []step, keywords []string) ([]step, error) {
	for {
		var (
			next step
			err  error
		)
		switch {
		case p.take("."):
			next, err = p.name(keywords)
		case p.take("["):
			next, err = p.index()
		default:
			if len(path) > maxPath {
				return nil, faultf("The document path has too many nesting elements; nesting levels: %d", len(path))
			}
			return path, nil
		}
		if err != nil {
			return nil, err
		}
		path = append(path, next)
	}
}

func (p *parser) name(keywords []string) (step, error) {
	t := p.peek()
	switch {
	case t.kind == tokenName:
		p.at++
		return step{kind: stepPlaceholder, n: p.slot(t.text, &p.used.names)}, nil
	case t.kind == tokenIdentifier && !p.isWord(keywords...):
		if isReserved(t.text) {
			p.note(faultReserved, faultf("Attribute name is a reserved keyword; reserved keyword: %s", t.text))
		}
		p.at++
		return step{kind: stepName, name: t.text}, nil
	}
	return step{}, p.syntaxError()
}

// index reads a list index behind its bracket.
func (p *parser) index() (step, error) {
	t := p.peek()
	if t.kind != tokenIndex {
		return step{}, p.syntaxError()
	}
	p.at++
	if !p.take("]") {
		return step{}, p.syntaxError()
	}
	n, err := strconv.ParseInt(t.text, 10, 32)
	if err != nil {
		return step{}, faultf("List index is not within the allowable range; index: [%s]", t.text)
	}
	return step{kind: stepIndex, n: int(n)}, nil
}

// atCall reports whether a function's name and its parenthesis come next.
func (p *parser) atCall() bool {
	next := p.tokens[min(p.at+1, len(p.tokens)-1)]
	return p.peek().kind == tokenIdentifier && next.kind == tokenSymbol && next.text == "("
}

// call reads a function's name and arguments, each with read.
func (p *parser) call(read func() (*node, error)) (*node, error) {
	n := &node{op: p.peek().text, call: true}
	p.at++
	args, err := p.list(read)
	n.args = args
	return n, err
}

// list reads operands in parentheses.
func (p *parser) list(read func() (*node, error)) ([]*node, error) {
	if !p.take("(") {
		return nil, p.syntaxError()
	}
	var args []*node
	for {
		arg, err := p.nest(read)
		if err != nil {
			return nil, err
		}
		args = append(args, arg)
		if p.take(")") {
			return args, nil
		}
		if !p.take(",") {
			return nil, p.syntaxError()
		}
	}
}

func misuse(function string) error {
	return faultf("The function is not allowed to be used this way in an expression; function: %s", function)
}

// belongsTo returns the kind of expression that has the function; empty if there is
// no such function.
func belongsTo(function string) string {
	switch function {
	case "attribute_exists", "attribute_not_exists", "attribute_type", "begins_with", "contains", "size":
		return "condition"
	case "if_not_exists", "list_append":
		return "update"
	}
	return ""
}

// checkFunction records a fault if the function does not exist or is not valid here.
func (p *parser) checkFunction(function, here string) {
	switch belongsTo(function) {
	case here:
	case "":
		p.note(faultFunction, faultf("Invalid function name; function: %s", function))
	default:
		p.note(faultMisuse, misuse(function))
	}
}
