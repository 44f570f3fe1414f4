// Package bucket is the arithmetic of token buckets.
package bucket
