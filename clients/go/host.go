package clearseal

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	maxProblem = 64 * 1024
	keyProblem = "https://iana.org/assignments/http-problem-types#ohttp-key"
	// defaultTimeout bounds one exchange with a host.
	defaultTimeout = 120 * time.Second
	// listsTimeout bounds the wait for revocation lists that the policy does not require.
	listsTimeout = 5 * time.Second
)

// errKeyUnknown is the enclave's answer to keys that it does not have, and a hint only: nothing authenticates it.
var errKeyUnknown = errors.New("the host's enclave does not know the key")

// host is the untrusted relay in front of an enclave.
type host struct {
	origin  string
	client  *http.Client
	timeout time.Duration
}

func newHost(address string) (*host, error) {
	parsed, err := url.Parse(address)
	if err != nil || (parsed.Scheme != "http" && parsed.Scheme != "https") || parsed.Host == "" ||
		parsed.RawQuery != "" || parsed.Fragment != "" || parsed.User != nil {
		return nil, refuse("URL_INVALID", "the address is not a URL that begins with http:// or https://")
	}
	transport := http.DefaultTransport
	if standard, ok := transport.(*http.Transport); ok {
		plain := standard.Clone()
		plain.DisableCompression = true
		transport = plain
	}
	client := &http.Client{Transport: transport}
	return &host{origin: strings.TrimRight(address, "/"), client: client, timeout: defaultTimeout}, nil
}

// send returns status, media type and body of an answer of at most limit bytes.
func (h *host) send(request *http.Request, limit int) (status int, kind string, body []byte, err error) {
	ctx, cancel := context.WithTimeout(request.Context(), h.timeout)
	defer cancel()
	// A redirect would show the host's choice of address, and changes nothing about the seal.
	client := *h.client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := client.Do(request.WithContext(ctx))
	if err != nil {
		return 0, "", nil, unreachable(request.Context(), err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		limit = min(limit, maxProblem)
	}
	// A declared length is not believed.
	body, err = io.ReadAll(io.LimitReader(response.Body, int64(limit)+1))
	if err != nil {
		return 0, "", nil, unreachable(request.Context(), err)
	}
	if len(body) > limit {
		return 0, "", nil, refuse("ANSWER_TOO_LARGE", "the host sent more than %d bytes", limit)
	}
	// Media types compare without case and parameters.
	kind, _, err = mime.ParseMediaType(response.Header.Get("content-type"))
	if err != nil {
		kind = ""
	}
	return response.StatusCode, kind, body, nil
}

func unreachable(caller context.Context, err error) error {
	code, message := "NETWORK", "the host cannot be reached, or broke off its answer"
	if caller.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		code, message = "TIMEOUT", "the host did not answer in time"
	}
	// The cause names addresses and the operating system's words, and nothing of the request.
	return &Error{Code: code, Message: message, cause: err}
}

// get returns the body of a successful answer.
func (h *host) get(ctx context.Context, path string, limit int) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.origin+path, nil)
	if err != nil {
		return nil, refuse("URL_INVALID", "the address is not a URL")
	}
	status, _, body, err := h.send(request, limit)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, problem(status, body)
	}
	return body, nil
}

// gateway sends a sealed request, and returns the sealed answer.
func (h *host) gateway(ctx context.Context, sealed, enclave []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.origin+"/v1/gateway", bytes.NewReader(sealed))
	if err != nil {
		return nil, refuse("URL_INVALID", "the address is not a URL")
	}
	request.Header.Set("content-type", "message/ohttp-req")
	request.Header.Set("accept", "message/ohttp-res")
	request.Header.Set("clearseal-enclave", hex.EncodeToString(enclave))
	status, kind, body, err := h.send(request, maxResponse+64)
	if err != nil {
		return nil, err
	}
	if status == http.StatusOK && kind == "message/ohttp-res" {
		return body, nil
	}
	var stated struct{ Type string }
	if kind == "application/problem+json" && json.Unmarshal(body, &stated) == nil && stated.Type == keyProblem {
		return nil, errKeyUnknown
	}
	return nil, problem(status, body)
}

// problem is an answer without a seal. Its code is the host's, and untrusted.
func problem(status int, body []byte) error {
	var stated struct{ Code string }
	code := "HOST_REFUSED"
	if json.Unmarshal(body, &stated) == nil && isCode(stated.Code) {
		code = stated.Code
	}
	return &Error{Code: code, Message: fmt.Sprintf("the host answered with status %d, without a seal", status), Status: status}
}

// isDenial reports that the host is busy or the request too large: a fresh proof would not help.
func isDenial(err *Error) bool {
	switch err.Status {
	case http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		return true
	case http.StatusServiceUnavailable:
		return err.Code == "BUSY" || strings.HasSuffix(err.Code, "_BUSY")
	}
	return false
}
