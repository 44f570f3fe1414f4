package api_test

import (
	"errors"
	"fmt"

	"github.com/tidegate/tidegate/pkg/api"
)

// A service reads a request; what is wrong with it goes back as the reply.
func ExampleDecodeAcquire() {
	for _, payload := range []string{
		`{"entity":"api-key-123","resource":"gpt-4","consume":{"rpm":1,"tpm":500}}`,
		`{"entity":"api-key-123","resource":"gpt-4","consume":{"tpm":-5}}`,
	} {
		q, err := api.DecodeAcquire([]byte(payload), false)
		var refusal *api.Error
		if errors.As(err, &refusal) {
			fmt.Printf("%d %s\n", refusal.Status(), refusal.JSON())
			continue
		}
		fmt.Println(q.Entity, q.Consume)
	}

	// Output:
	// api-key-123 [{rpm 1} {tpm 500}]
	// 400 {"code":"invalid_amount","field":"consume.tpm","message":"-5 must be a whole number from 0 to 1099511627776"}
}

func ExampleParseLimit() {
	l, err := api.ParseLimit("tpm=10000/min:20000")
	fmt.Println(l.Capacity, l.RefillAmount, l.RefillPeriodSeconds, err)
	fmt.Println(l)

	// Output:
	// 20000 10000 60 <nil>
	// tpm=10000/min:20000
}
