package expr

import "strings"

// The sections of an update, which are not names there.
func updateKeywords() []string { return []string{"SET", "REMOVE", "ADD", "DELETE"} }

// updateParser reads
//
//	update  = section { section }
//	section = SET path "=" sum { "," … } | REMOVE path { "," … } |
//	          ADD path :value { "," … } | DELETE path :value { "," … }
//	sum     = item [ ( "+" | "-" ) item ]
//	item    = "(" sum ")" | function "(" item { "," item } ")" | :value | path
//
// A sum cannot be an operand of another sum or of a function.
type updateParser struct {
	*parser
	keywords []string
	actions  []action
	calls    []*node
	sections map[string]bool
}

func parseUpdate(src string) (*updateTree, error) {
	base, err := newParser(src)
	if err != nil {
		return nil, err
	}
	p := &updateParser{parser: base, keywords: updateKeywords(), sections: map[string]bool{}}
	for {
		if err := p.section(); err != nil {
			return nil, err
		}
		if !p.isWord(p.keywords...) {
			break
		}
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	return &updateTree{placeholders: p.used, actions: p.actions, calls: p.calls}, nil
}

func (p *updateParser) section() error {
	if !p.isWord(p.keywords...) {
		return p.syntaxError()
	}
	verb := strings.ToUpper(p.peek().text)
	if p.sections[verb] {
		p.note(faultSection, faultf(`The "%s" section can only be used once in an update expression;`, verb))
	}
	p.sections[verb] = true
	p.at++
	for {
		a, err := p.action(verb)
		if err != nil {
			return err
		}
		p.actions = append(p.actions, a)
		if !p.take(",") {
			return nil
		}
	}
}

func (p *updateParser) action(verb string) (action, error) {
	a := action{verb: verb}
	var err error
	if a.path, err = p.path(p.keywords...); err != nil {
		return a, err
	}
	switch verb {
	case "SET":
		if !p.take("=") {
			return a, p.syntaxError()
		}
		a.value, err = p.sum()
	case "ADD", "DELETE":
		if p.peek().kind != tokenValue {
			return a, p.syntaxError()
		}
		a.value = p.value()
	}
	return a, err
}

func (p *updateParser) sum() (*node, error) {
	left, err := p.item()
	if err != nil {
		return nil, err
	}
	if !p.take("+") && !p.take("-") {
		return left, nil
	}
	n := &node{op: p.tokens[p.at-1].text, args: []*node{left}}
	if !left.isOperand() {
		p.at--
		return nil, p.syntaxError()
	}
	right, err := p.operand()
	n.args = append(n.args, right)
	p.operators++
	p.calls = append(p.calls, n)
	return n, err
}

// operand reads an item that is not a sum.
func (p *updateParser) operand() (*node, error) {
	n, err := p.item()
	if err == nil && !n.isOperand() {
		return nil, p.syntaxError()
	}
	return n, err
}

// argument reads a function's operand; if_not_exists is the only function allowed
// there.
func (p *updateParser) argument() (*node, error) {
	n, err := p.operand()
	if err == nil && n.op == "list_append" {
		p.note(faultMisuse, misuse(n.op))
	}
	return n, err
}

func (p *updateParser) item() (*node, error) {
	switch {
	case p.take("("):
		n, err := p.nest(p.sum)
		if err == nil && !p.take(")") {
			err = p.syntaxError()
		}
		return n, err
	case p.peek().kind == tokenValue:
		return p.value(), nil
	case p.atCall() && !p.isWord(p.keywords...):
		p.checkFunction(p.peek().text, "update")
		n, err := p.call(p.argument)
		p.calls = append(p.calls, n)
		return n, err
	}
	path, err := p.path(p.keywords...)
	return &node{op: opPath, path: path}, err
}

// parseProjection reads document paths joined by commas.
func parseProjection(src string) (*projectionTree, error) {
	p, err := newParser(src)
	if err != nil {
		return nil, err
	}
	var paths [][]step
	for {
		path, err := p.path()
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
		if !p.take(",") {
			break
		}
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	return &projectionTree{placeholders: p.used, paths: paths}, nil
}
