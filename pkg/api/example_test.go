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

func ExampleDecodeRequest() {
	q, err := api.DecodeRequest[api.LimitsListRequest]([]byte(`{"resource":"gpt-4"}`))
	fmt.Println(q.Resource, q.Limit, err)

	_, err = api.DecodeRequest[api.LimitsListRequest]([]byte(`{"resource":"gpt-4","limit":0}`))
	fmt.Println(err)
	// Output:
	// gpt-4 100 <nil>
	// invalid_amount: limit: 0 must be a whole number from 1 to 1000
}

func ExampleWindow_Span() {
	start, end := api.WindowDaily.Span(1772366400000)
	fmt.Println(start, end)
	// Output: 2026-03-01 00:00:00 +0000 UTC 2026-03-02 00:00:00 +0000 UTC
}
