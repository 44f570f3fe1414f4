package config

import "github.com/tidegate/tidegate/pkg/api"

// AdminRequest is a request of an admin verb, as a node received it.
type AdminRequest struct {
	Namespace   string // its name, in subjects
	NamespaceID string // in keys; keys.Registry for an operator's request
	Info        string // header api.HeaderRequestInfo; empty unless it occurs once, in a well-formed header block
	Verb        api.Verb
	Body        []byte
}
