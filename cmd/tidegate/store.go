package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/internal/process"
	"github.com/tidegate/tidegate/internal/store"
)

// storeFlags say which DynamoDB and which table to use.
type storeFlags struct {
	Endpoint string `name:"dynamodb-endpoint" variable:"" placeholder:"URL" help:"DynamoDB endpoint; default: the region's."`
	CA       string `name:"dynamodb-ca" variable:"" placeholder:"FILE" help:"Certificate authority of the DynamoDB endpoint (PEM); default: the machine's."`
	Region   string `name:"region" variable:"" placeholder:"REGION" help:"AWS region; default: from the AWS environment and configuration files."`
	Table    string `name:"table" variable:"" default:"${table}" placeholder:"NAME" help:"Table; default: ${table}."`
}

const (
	// localRegion and localCredentials are for engines on this machine: they
	// want some, and do not look at them.
	localRegion      = "us-east-1"
	localCredentials = "tidegate"
)

// aws is the SDK's configuration for the store; the SDK's warnings go to log.
func (f storeFlags) aws(ctx context.Context, log *slog.Logger) (aws.Config, error) {
	local, err := f.local()
	if err != nil {
		return aws.Config{}, err
	}
	options := []func(*awsconfig.LoadOptions) error{awsconfig.WithHTTPClient(store.NewHTTPClient()), awsconfig.WithLogger(process.AWSLog(log))}
	if f.Region != "" {
		options = append(options, awsconfig.WithRegion(f.Region))
	}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return aws.Config{}, usageError{fmt.Errorf("--dynamodb-ca: %w", err)}
		}
		options = append(options, awsconfig.WithCustomCABundle(bytes.NewReader(pem)))
	}
	if local { // then the machine's role in AWS is no matter, and looking for it takes time
		options = append(options, awsconfig.WithEC2IMDSClientEnableState(imds.ClientDisabled))
	}
	cfg, err := awsconfig.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return aws.Config{}, fmt.Errorf("read the AWS configuration: %w", err)
	}
	cfg.HTTPClient = store.OwnBody(cfg.HTTPClient)
	if f.Endpoint != "" {
		cfg.BaseEndpoint = &f.Endpoint
	}
	if cfg.Region == "" && local {
		cfg.Region = localRegion
	}
	if cfg.Region == "" {
		return aws.Config{}, usageError{errors.New("which AWS region? Give --region (TIDEGATE_REGION, AWS_REGION), or --dynamodb-endpoint for a DynamoDB on this machine")}
	}
	if local && lacksCredentials(ctx, cfg) {
		cfg.Credentials = credentials.NewStaticCredentialsProvider(localCredentials, localCredentials, "")
	}
	return cfg, nil
}

// local reports whether the endpoint is on this machine.
func (f storeFlags) local() (bool, error) {
	if f.Endpoint == "" {
		return false, nil
	}
	u, err := url.Parse(f.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return false, usageError{fmt.Errorf("--dynamodb-endpoint %q is not a URL such as http://127.0.0.1:8000", f.Endpoint)}
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback(), nil
}

// lacksCredentials reports whether no AWS credentials are configured.
func lacksCredentials(ctx context.Context, cfg aws.Config) bool {
	_, err := cfg.Credentials.Retrieve(ctx)
	return err != nil
}

// explain adds advice to an error of the store.
func (f storeFlags) explain(err error) error {
	var missing *types.ResourceNotFoundException
	var operation *net.OpError
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &untrusted):
		return advise(err, "Point --dynamodb-ca at the certificate of the authority that signed the endpoint's, and reach it by a name that the certificate has.")
	case errors.As(err, &missing):
		return advise(err, "Make the table with `tidegate table create`, or point --table at yours.")
	case errors.As(err, &operation) && f.Endpoint != "":
		return advise(err, "Is a DynamoDB-compatible store listening at %s? Point --dynamodb-endpoint at yours, or leave it out for AWS.", f.Endpoint)
	case errors.As(err, &operation):
		return advise(err, "DynamoDB cannot be reached from here: check the network and --region, or give --dynamodb-endpoint.")
	}
	return err
}
