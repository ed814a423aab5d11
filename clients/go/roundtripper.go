package clearseal

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
)

// answerKey finds the answer in the context of a response's request.
type answerKey struct{}

// RoundTripper returns a transport that seals each request to the session: http.Client{Transport: session.RoundTripper()}. Method,
// path, content, content-type, content-encoding and accept are sent; the address, the API key and other headers are not.
func (s *Session) RoundTripper() http.RoundTripper { return sealedTransport{s} }

// AnswerOf returns the enclave's answer behind a response of [Session.RoundTripper], with its receipt; nil for other responses.
func AnswerOf(response *http.Response) *Answer {
	if response == nil || response.Request == nil {
		return nil
	}
	answer, _ := response.Request.Context().Value(answerKey{}).(*Answer)
	return answer
}

type sealedTransport struct{ session *Session }

// RoundTrip implements [http.RoundTripper].
func (t sealedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	var content []byte
	if request.Body != nil {
		defer request.Body.Close()
		var err error
		if content, err = io.ReadAll(io.LimitReader(request.Body, maxRequest+1)); err != nil {
			return nil, err
		}
	}
	sealed := Request{
		Method: request.Method, Path: request.URL.RequestURI(), ContentType: request.Header.Get("content-type"),
		ContentEncoding: request.Header.Get("content-encoding"), Accept: request.Header.Get("accept"), Content: content,
	}
	if sealed.Method == "" {
		sealed.Method = http.MethodGet
	}
	answer, err := t.session.Do(request.Context(), sealed)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	for name, values := range answer.Header {
		if !isSealed(name) {
			header[name] = values
		}
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", answer.Status, http.StatusText(answer.Status)), StatusCode: answer.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(answer.Content)), ContentLength: int64(len(answer.Content)),
		Request: request.WithContext(context.WithValue(request.Context(), answerKey{}, answer)),
	}, nil
}
