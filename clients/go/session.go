package clearseal

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// clockSkew bounds the error of the estimate of the enclave's clock: the evidence's time in transit.
const clockSkew = 60 * time.Second

// Option changes how [Connect] connects.
type Option func(*Session)

// AllowSimulated also accepts a simulated enclave, for development. Its operator can read everything that is sent. Without a policy
// the enclave is judged by the service's own.
func AllowSimulated() Option { return func(s *Session) { s.allowSimulated = true } }

// WithHTTPClient sends requests to the host with another client: a proxy, certificates. Redirects are not followed.
func WithHTTPClient(client *http.Client) Option { return func(s *Session) { s.host.client = client } }

// WithTimeout bounds one exchange with the host; 120 seconds by default.
func WithTimeout(timeout time.Duration) Option { return func(s *Session) { s.host.timeout = timeout } }

// Session is a verified service. It is safe for concurrent use.
type Session struct {
	host           *host
	policy         *Policy
	allowSimulated bool
	now            func() time.Time

	// attesting is held during an attestation, so that concurrent callers share one.
	attesting sync.Mutex
	mutex     sync.Mutex
	proof     *Attestation
}

// Connect verifies the enclave behind an address, such as https://embed.example. If it is not verified, the error has the code of
// the check, and only a nonce was sent. Get the policy from a source that you trust, never from the service.
func Connect(ctx context.Context, address string, policy *Policy, options ...Option) (*Session, error) {
	host, err := newHost(address)
	if err != nil {
		return nil, err
	}
	// Without the monotonic reading, which stops while a machine sleeps.
	session := &Session{host: host, policy: policy, now: func() time.Time { return time.Now().Round(0) }}
	for _, option := range options {
		option(session)
	}
	if policy == nil && !session.allowSimulated {
		return nil, refuse("POLICY_MISSING", "there is no trust policy to judge the enclave by")
	}
	if _, err := session.attest(ctx, nil); err != nil {
		return nil, err
	}
	return session, nil
}

// BaseURL is the base URL for an OpenAI client. The seal decides who can read a request, not this address.
func (s *Session) BaseURL() string { return s.host.origin + "/v1" }

// Attestation is the newest proof.
func (s *Session) Attestation() *Attestation {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.proof
}

// usable returns the proof if requests may be sealed under it now.
func (s *Session) usable() *Attestation {
	proof := s.Attestation()
	if proof != nil && proof.isValid(s.now()) {
		return proof
	}
	return nil
}

func (a *Attestation) isValid(now time.Time) bool {
	return a.live && !a.enclaveTime(now).After(a.ValidUntil)
}

// attest requests fresh evidence and judges it. replaced is a proof that must not be used again.
func (s *Session) attest(ctx context.Context, replaced *Attestation) (*Attestation, error) {
	s.attesting.Lock()
	defer s.attesting.Unlock()
	if proof := s.usable(); proof != nil && proof != replaced {
		return proof, nil
	}
	proof, err := s.judge(ctx)
	if err != nil {
		return nil, err
	}
	if !proof.isValid(s.now()) {
		return nil, refuse("EXPIRED_TWICE", "a fresh proof has expired already, by this machine's clock")
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.proof = proof
	return proof, nil
}

// judge makes every check. Only Verified passes, or Simulated where the caller accepted it.
func (s *Session) judge(ctx context.Context) (*Attestation, error) {
	policy, err := s.demand(ctx)
	if err != nil {
		return nil, err
	}
	lists := s.requestLists(ctx, policy)
	nonce := make([]byte, 32)
	rand.Read(nonce)
	path := "/v1/attestation?nonce=" + base64.RawURLEncoding.EncodeToString(nonce) + "&shared=1"
	answer, err := s.host.get(ctx, path, maxEvidence)
	if err != nil {
		return nil, err
	}
	// The enclave's clock is compared with this moment, and not with the arrival of the lists.
	at := s.now()
	evidence, err := ParseEvidence(answer)
	if err != nil {
		return nil, err
	}
	evidence.CRLs = <-lists
	proof, err := Appraise(*evidence, policy, Live(evidence.documentNonce(nonce), at))
	if err != nil {
		return nil, err
	}
	switch {
	case proof.Verdict == Verified:
	case proof.Verdict == Simulated && s.allowSimulated:
	default:
		return nil, refuse("SIMULATION_REFUSED", "the enclave is %s, which proves nothing", proof.Verdict)
	}
	return proof, nil
}

// demand returns the caller's policy, or the service's own if the caller accepted simulation.
func (s *Session) demand(ctx context.Context) (*Policy, error) {
	if s.policy != nil {
		return s.policy, nil
	}
	text, err := s.host.get(ctx, "/v1/development-policy", maxPolicy)
	if failed, ok := errors.AsType[*Error](err); ok && failed.Status != 0 {
		return nil, refuse("POLICY_MISSING", "there is no trust policy, and the service does not simulate")
	}
	if err != nil {
		return nil, err
	}
	policy, err := ReadPolicyWithEvidence(text)
	if err != nil {
		return nil, refuse("POLICY_UNUSABLE", "the service's development policy is unusable")
	}
	return policy, nil
}

// requestLists requests revocation lists. Every client does, without parameters, so the request tells the host nothing. If they
// are missing, the policy decides.
func (s *Session) requestLists(ctx context.Context, policy *Policy) <-chan []byte {
	lists := make(chan []byte, 1)
	go func() {
		if !policy.revocation {
			limited, cancel := context.WithTimeout(ctx, listsTimeout)
			defer cancel()
			ctx = limited
		}
		answer, err := s.host.get(ctx, "/v1/crls", maxCRLs)
		if err != nil {
			answer = nil
		}
		lists <- answer
	}()
	return lists
}

// Request is a request inside the seal.
type Request struct {
	Method string
	// Path begins with a slash, and includes the query.
	Path string
	// ContentType, ContentEncoding and Accept are left out if empty.
	ContentType, ContentEncoding, Accept string
	Content                              []byte
}

// Answer is an answer of the verified enclave.
type Answer struct {
	Status  int
	Header  http.Header
	Content []byte
	// Receipt is verified. It is nil for a refusal and for GET and HEAD, because no inference took place.
	Receipt *Receipt

	receipt, request []byte
	evidence         Evidence
}

// Do seals a request to the enclave and returns the answer once its receipt is verified. A refusal by the enclave is an answer too.
//
// A proof that has ended, an answer that is missing, rewritten or cannot be opened, and a receipt that is refused lead to one new
// attestation and one more attempt.
func (s *Session) Do(ctx context.Context, request Request) (*Answer, error) {
	proof := s.usable()
	if proof == nil {
		var err error
		if proof, err = s.attest(ctx, nil); err != nil {
			return nil, err
		}
	}
	answer, err := s.attempt(ctx, proof, request)
	if err == nil || ctx.Err() != nil || isFinal(err) {
		return answer, err
	}
	if proof, err = s.attest(ctx, proof); err != nil {
		return nil, err
	}
	answer, err = s.attempt(ctx, proof, request)
	if errors.Is(err, errKeyUnknown) {
		return nil, refuse("KEY_UNKNOWN_TWICE", "the service does not know the keys that it has just attested")
	}
	return answer, err
}

// declined are the gateway's codes about a request's terms and form, and whether fresh evidence helps.
var declined = map[string]bool{
	"DOCUMENT_UNKNOWN": true, "DATE_OUT_OF_WINDOW": true, "KEYS_EXPIRED": true,
	"TERMS_MALFORMED": false, "INNER_TOO_LARGE": false, "INNER_MALFORMED": false, "INNER_PADDING_NOT_ZERO": false,
	"INNER_BAD_CONTROL_DATA": false, "INNER_BAD_FIELD": false,
}

// sealError is a request that cannot be sealed; nothing was sent.
type sealError struct{ error }

func (e sealError) Unwrap() error { return e.error }

// isFinal reports an error that a fresh proof would not change.
func isFinal(err error) bool {
	if _, ok := errors.AsType[sealError](err); ok {
		return true
	}
	failed, ok := errors.AsType[*Error](err)
	if !ok {
		return false
	}
	stale, found := declined[failed.Code]
	return isDenial(failed) || (found && failed.Status != 0 && !stale)
}

// attempt sends one request under one proof.
func (s *Session) attempt(ctx context.Context, proof *Attestation, request Request) (*Answer, error) {
	key, aead, err := proof.Manifest.sealingKey()
	if err != nil {
		return nil, sealError{err}
	}
	// crypto/rand fails by ending the program, never by returning.
	nonce, salt := make([]byte, 32), [32]byte{}
	rand.Read(nonce)
	rand.Read(salt[:])
	date := proof.enclaveTime(s.now())
	if date.After(proof.ValidUntil) {
		return nil, refuse("ATTESTATION_EXPIRED", "the attestation has expired")
	}
	message := innerMessage{method: request.Method, path: request.Path, content: request.Content}
	for _, field := range []innerField{
		{"content-type", request.ContentType}, {"content-encoding", request.ContentEncoding}, {"accept", request.Accept},
	} {
		if field.value != "" {
			message.fields = append(message.fields, field)
		}
	}
	message.fields = append(message.fields,
		innerField{"date", date.UTC().Format(http.TimeFormat)},
		innerField{"clearseal-nonce", base64.RawURLEncoding.EncodeToString(nonce)},
		innerField{"clearseal-salt", base64.RawURLEncoding.EncodeToString(salt[:])},
		innerField{"clearseal-document", hex.EncodeToString(proof.Document.SHA256[:])},
	)
	inner, err := message.encodeRequest()
	if err != nil {
		return nil, sealError{err}
	}
	sealed, opener, err := encapsulate(key, aead, pad(inner))
	if err != nil {
		return nil, sealError{err}
	}
	body, err := s.host.gateway(ctx, sealed, proof.enclaveName())
	if err != nil {
		return nil, err
	}
	opened, err := opener.open(body)
	if err != nil {
		return nil, err
	}
	response, err := decodeInner(opened, false)
	if err != nil {
		return nil, err
	}
	pending := pendingAnswer{proof: proof, method: request.Method, inner: inner, nonce: nonce, salt: salt, date: date}
	return pending.finish(response, proof.enclaveTime(s.now()))
}

// pendingAnswer holds the expectations for an answer. It holds the salt.
type pendingAnswer struct {
	proof  *Attestation
	method string
	inner  []byte
	nonce  []byte
	salt   [32]byte
	date   time.Time
}

// finish verifies the receipt: of this request, this answer, this enclave, just now.
func (p *pendingAnswer) finish(response *innerMessage, now time.Time) (*Answer, error) {
	if response.status >= 400 {
		code := serviceCode(response.content)
		if _, found := declined[code]; found {
			return nil, &Error{Code: code, Message: "the service declined the request", Status: response.status}
		}
	}
	answer := &Answer{Status: response.status, Header: http.Header{}, Content: response.content}
	for _, field := range response.fields {
		answer.Header.Set(field.name, field.value)
	}
	if response.status >= 300 || p.method == http.MethodGet || p.method == http.MethodHead {
		return answer, nil
	}
	text := response.field("clearseal-receipt")
	receipt, err := decodeBase64(text)
	if text == "" || err != nil {
		return nil, refuse("RECEIPT_MISSING", "the answer carries no readable receipt")
	}
	request, content := sha256.Sum256(p.inner), responseHash(p.salt, response.content)
	waited := max(0, now.Truncate(time.Second).Sub(p.date.Truncate(time.Second)))
	answer.Receipt, err = verifyReceipt(receipt, &expectations{
		key: p.proof.Manifest.ReceiptKey, attestation: p.proof, requestHash: &request, responseHash: &content, nonce: p.nonce,
		// Issued between the request's departure and the answer's arrival, within the difference of the clocks.
		window: &receiptWindow{at: now, maxAge: waited + clockSkew, skew: clockSkew},
	})
	if err != nil {
		return nil, err
	}
	answer.receipt, answer.request, answer.evidence = receipt, p.inner, p.proof.evidence
	return answer, nil
}

// serviceCode is the code of an error object in OpenAI's form.
func serviceCode(content []byte) string {
	var body struct{ Error struct{ Code string } }
	if json.Unmarshal(content, &body) != nil || !isCode(body.Error.Code) {
		return ""
	}
	return body.Error.Code
}

// Embed returns a vector for each text, in their order.
func (s *Session) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	vectors, _, err := s.EmbedWithAnswer(ctx, texts)
	return vectors, err
}

// EmbedWithAnswer is Embed that also returns the answer, with its receipt.
func (s *Session) EmbedWithAnswer(ctx context.Context, texts []string) ([][]float32, *Answer, error) {
	manifest := s.Attestation().Manifest
	body, err := json.Marshal(map[string]any{"model": manifest.ModelID, "input": texts, "encoding_format": "base64"})
	if err != nil {
		return nil, nil, refuse("REQUEST_INVALID", "the texts cannot be written as JSON")
	}
	answer, err := s.Do(ctx, Request{
		Method: http.MethodPost, Path: "/v1/embeddings", ContentType: "application/json", Content: body,
	})
	if err != nil {
		return nil, nil, err
	}
	if answer.Status != http.StatusOK {
		code := serviceCode(answer.Content)
		if code == "" {
			code = "SERVICE_REFUSED"
		}
		return nil, nil, &Error{Code: code, Message: "the enclave refused the request", Status: answer.Status}
	}
	vectors, err := readVectors(answer.Content, len(texts), int(manifest.Dimension))
	if err != nil {
		return nil, nil, err
	}
	return vectors, answer, nil
}

// readVectors reads a list of embeddings in base64: float32, little-endian.
func readVectors(content []byte, count, dimension int) ([][]float32, error) {
	invalid := refuse("ANSWER_INVALID", "the sealed answer is not a list of embeddings for the texts that were sent")
	var list struct {
		Data []struct {
			Index     int
			Embedding string
		}
	}
	if json.Unmarshal(content, &list) != nil || len(list.Data) != count {
		return nil, invalid
	}
	vectors := make([][]float32, count)
	for _, item := range list.Data {
		packed, err := base64.StdEncoding.DecodeString(item.Embedding)
		if err != nil || len(packed) != 4*dimension || item.Index < 0 || item.Index >= count || vectors[item.Index] != nil {
			return nil, invalid
		}
		vector := make([]float32, 0, dimension)
		for number := range slices.Chunk(packed, 4) {
			vector = append(vector, math.Float32frombits(binary.LittleEndian.Uint32(number)))
		}
		vectors[item.Index] = vector
	}
	return vectors, nil
}

// isSealed reports a header of the protocol, which a plain client has no use for.
func isSealed(name string) bool { return strings.HasPrefix(strings.ToLower(name), "clearseal-") }
