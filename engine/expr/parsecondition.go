package expr

// Keywords of conditions, which are not names.
func conditionKeywords() []string { return []string{"AND", "OR", "NOT", "BETWEEN", "IN"} }

// conditionParser reads
//
//	or        = and { OR and }
//	and       = not { AND not }
//	not       = NOT not | predicate
//	predicate = item [ comparator item | BETWEEN item AND item | IN "(" item { "," item } ")" ]
//	item      = "(" or ")" | function "(" item { "," item } ")" | :value | path
//
// A parenthesis may hold a condition or an operand, and only the text behind it
// decides between them. So item reads both, and predicate checks them.
type conditionParser struct {
	*parser
	keywords []string
	tests    []*node
}

func parseCondition(src string) (*conditionTree, error) {
	base, err := newParser(src)
	if err != nil {
		return nil, err
	}
	p := &conditionParser{parser: base, keywords: conditionKeywords()}
	root, err := p.or()
	if err == nil {
		err = p.asCondition(root)
	}
	if err == nil {
		err = p.finish()
	}
	if err != nil {
		return nil, err
	}
	return &conditionTree{placeholders: p.used, root: root, tests: p.tests}, nil
}

// asCondition refuses a node that is not a condition.
func (p *conditionParser) asCondition(n *node) error {
	if !n.isCondition() {
		return p.syntaxError()
	}
	if n.op == "size" {
		p.note(faultMisuse, misuse(n.op))
	}
	return nil
}

// asOperand refuses a node that is not an operand.
func (p *conditionParser) asOperand(n *node) error {
	if !n.isOperand() {
		return p.syntaxError()
	}
	if n.call && n.op != "size" {
		p.note(faultMisuse, misuse(n.op))
	}
	return nil
}

func (p *conditionParser) or() (*node, error)  { return p.chain("OR", p.and) }
func (p *conditionParser) and() (*node, error) { return p.chain("AND", p.not) }

// chain reads conditions joined by the word. A single item may also be an operand.
func (p *conditionParser) chain(word string, read func() (*node, error)) (*node, error) {
	first, err := read()
	if err != nil || !p.isWord(word) {
		return first, err
	}
	n := &node{op: word, args: []*node{first}}
	if err := p.asCondition(first); err != nil {
		return nil, err
	}
	for p.takeWord(word) {
		p.operators++
		arg, err := read()
		if err != nil {
			return nil, err
		}
		if err := p.asCondition(arg); err != nil {
			return nil, err
		}
		n.args = append(n.args, arg)
	}
	return n, nil
}

func (p *conditionParser) not() (*node, error) {
	if !p.takeWord("NOT") {
		return p.predicate()
	}
	p.operators++
	arg, err := p.nest(p.not)
	if err != nil {
		return nil, err
	}
	return &node{op: "NOT", args: []*node{arg}}, p.asCondition(arg)
}

func (p *conditionParser) predicate() (*node, error) {
	left, err := p.item()
	if err != nil {
		return nil, err
	}
	var n *node
	switch {
	case p.takeComparator():
		n = &node{op: p.tokens[p.at-1].text}
	case p.takeWord("BETWEEN"):
		n = &node{op: "BETWEEN"}
	case p.takeWord("IN"):
		n = &node{op: "IN"}
	default:
		return left, nil
	}
	p.operators++
	if !left.isOperand() {
		p.at-- // the operator is the token that does not fit
	}
	if err := p.asOperand(left); err != nil {
		return nil, err
	}
	rest, err := p.rightSide(n.op)
	n.args = append([]*node{left}, rest...)
	p.tests = append(p.tests, n)
	return n, err
}

func (p *conditionParser) takeComparator() bool {
	for _, symbol := range [...]string{"=", "<>", "<", "<=", ">", ">="} {
		if p.take(symbol) {
			return true
		}
	}
	return false
}

// rightSide reads the operands behind an operator.
func (p *conditionParser) rightSide(op string) ([]*node, error) {
	if op == "IN" {
		list, err := p.list(p.operand)
		if len(list) > maxOperands {
			return nil, faultf("The IN operator is provided with too many operands; number of operands: %d", len(list))
		}
		return list, err
	}
	first, err := p.operand()
	if err != nil || op != "BETWEEN" {
		return []*node{first}, err
	}
	if !p.takeWord("AND") {
		return nil, p.syntaxError()
	}
	second, err := p.operand()
	return []*node{first, second}, err
}

func (p *conditionParser) operand() (*node, error) {
	n, err := p.item()
	if err == nil {
		err = p.asOperand(n)
	}
	return n, err
}

// item reads a condition in parentheses, or an operand.
func (p *conditionParser) item() (*node, error) {
	switch {
	case p.take("("):
		return p.group()
	case p.peek().kind == tokenValue:
		return p.value(), nil
	case p.atCall() && !p.isWord(p.keywords...):
		name := p.peek().text
		p.checkFunction(name, "condition")
		n, err := p.call(p.operand)
		p.tests = append(p.tests, n)
		return n, err
	}
	path, err := p.path(p.keywords...)
	return &node{op: opPath, path: path}, err
}

// group reads the rest of an item behind its opening parenthesis.
func (p *conditionParser) group() (*node, error) {
	n, err := p.nest(p.or)
	if err != nil {
		return nil, err
	}
	if !p.take(")") {
		return nil, p.syntaxError()
	}
	if n.grouped {
		p.note(faultParentheses, fault("The expression has redundant parentheses;"))
	}
	n.grouped = true
	if n.op == opPath {
		before := len(n.path)
		n.path, err = p.steps(n.path, p.keywords)
		n.grouped = len(n.path) == before
	}
	return n, err
}
