package namespace

import "github.com/tidegate/tidegate/pkg/api"

// Request is an admin request as a node received it.
type Request struct {
	Name string // of the namespace, in subjects
	ID   string // of the namespace, in keys; keys.Registry for an operator's
	Info string // header api.HeaderRequestInfo; empty for none
	Verb api.Verb
	Body []byte
}
