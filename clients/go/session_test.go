package clearseal

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func similarity(a, b []float32) float64 {
	var dot, first, second float64
	for at := range a {
		dot += float64(a[at]) * float64(b[at])
		first += float64(a[at]) * float64(a[at])
		second += float64(b[at]) * float64(b[at])
	}
	return dot / math.Sqrt(first*second)
}

func TestSession(t *testing.T) {
	running := startService(t)
	policy := running.policy()

	t.Run("embeds", func(t *testing.T) {
		host := startHostile(running)
		session := mustConnect(t, host.url, policy)
		vectors, answer, err := session.EmbedWithAnswer(t.Context(), []string{secretText, "a cat sleeps", "a kitten is asleep"})
		if err != nil {
			t.Fatal(err)
		}
		if len(vectors) != 3 || len(vectors[0]) != int(session.Attestation().Manifest.Dimension) {
			t.Fatal(len(vectors))
		}
		if near, far := similarity(vectors[1], vectors[2]), similarity(vectors[0], vectors[2]); near < far+0.3 {
			t.Error(near, far)
		}
		if answer.Receipt == nil || answer.Receipt.Verdict != Simulated || answer.Receipt.SequenceNumber == 0 {
			t.Errorf("%+v", answer.Receipt)
		}
		if session.Attestation().Verdict != Simulated {
			t.Error(session.Attestation().Verdict)
		}
		host.mutex.Lock()
		defer host.mutex.Unlock()
		for _, body := range host.bodies {
			if bytes.Contains(body, []byte("enclave reads")) {
				t.Error("the host saw the text")
			}
		}
	})

	t.Run("seals to either mechanism", func(t *testing.T) {
		session := mustConnect(t, running.url, policy)
		key, _, err := session.proof.Manifest.sealingKey()
		if err != nil || key.kem != kemXWing {
			t.Fatal("X-Wing is not preferred")
		}
		for _, kem := range []uint16{kemXWing, kemX25519} {
			for _, aead := range []uint16{aeadAES256GCM, aeadAES128GCM} {
				key := *session.proof.Manifest.keyOf(kem)
				key.aeads = []uint16{aead}
				manifest := *session.proof.Manifest
				manifest.keys = []keyConfig{key}
				proof := *session.proof
				proof.Manifest = &manifest
				answer, err := session.attempt(t.Context(), &proof, embedding(t, session))
				if err != nil || answer.Receipt == nil {
					t.Errorf("%x with %d: %v", kem, aead, err)
				}
			}
		}
		manifest := Manifest{keys: []keyConfig{{kem: kemXWing, aeads: []uint16{aeadChaCha20}}}}
		_, _, err = manifest.sealingKey()
		expectCode(t, err, "NO_USABLE_KEY")
	})

	t.Run("refuses without a policy or a proof", func(t *testing.T) {
		host := startHostile(running)
		_, err := Connect(t.Context(), host.url, nil)
		expectCode(t, err, "POLICY_MISSING")
		_, err = Connect(t.Context(), host.url, policy)
		expectCode(t, err, "SIMULATION_REFUSED")
		_, err = Connect(t.Context(), "ftp://host", policy)
		expectCode(t, err, "URL_INVALID")
		_, err = Connect(t.Context(), "http://127.0.0.1:1", policy)
		expectCode(t, err, "NETWORK")
		if host.count("/v1/gateway") != 0 {
			t.Error("something was sent")
		}
		if session, err := Connect(t.Context(), host.url, nil, AllowSimulated()); err != nil || session.proof.Verdict != Simulated {
			t.Error(err)
		}
	})

	t.Run("refuses by another policy", func(t *testing.T) {
		for member, change := range map[string]struct {
			value any
			code  string
		}{
			"policy_version": {"another", "POLICY_VERSION_MISMATCH"},
			"security_mode":  {"production", "SECURITY_MODE_MISMATCH"},
			"model":          {map[string]string{"id": "m", "sha256": strings.Repeat("11", 32)}, "MODEL_MISMATCH"},
			"root":           {"aws-nitro-enclaves-g1", "ROOT_NOT_PINNED"},
			"not_after":      {"2020-01-01T00:00:00Z", "POLICY_EXPIRED"},
			"revocation":     {"required", "REVOCATION_UNKNOWN"},
			"releases": {
				[]any{map[string]any{"name": "1", "pcrs": map[string]string{"0": strings.Repeat("11", 48)}}}, "PCR_MISMATCH",
			},
		} {
			_, err := Connect(t.Context(), running.url, changed(t, running, member, change.value), AllowSimulated())
			expectCode(t, err, change.code)
		}
		for _, member := range []string{"policy_version", "security_mode", "model"} {
			_, err := Connect(t.Context(), running.url, changed(t, running, member, nil), AllowSimulated())
			if code := CodeOf(err); !strings.HasSuffix(code, "_MISMATCH") {
				t.Errorf("without %s: %v", member, err)
			}
		}
	})

	t.Run("refuses evidence that is not of now", func(t *testing.T) {
		host := startHostile(running)
		var first []byte
		host.set(func(path string, status int, body []byte) (int, []byte) {
			if path == "/v1/attestation" {
				if first == nil {
					first = body
				}
				body = first
			}
			return status, body
		})
		session := mustConnect(t, host.url, policy)
		_, err := session.judge(t.Context())
		expectCode(t, err, "NONCE_MISMATCH")
		host.set(nil)
		for shift, code := range map[time.Duration]string{301 * time.Second: "DOCUMENT_STALE", -62 * time.Second: "DOCUMENT_FROM_FUTURE"} {
			session.now = func() time.Time { return time.Now().Add(shift) }
			_, err := session.judge(t.Context())
			if code == "DOCUMENT_FROM_FUTURE" && CodeOf(err) == "CERTIFICATE_NOT_YET_VALID" {
				continue
			}
			expectCode(t, err, code)
		}
		_, err = session.judge(canceled())
		expectCode(t, err, "NETWORK")
	})

	t.Run("refuses answers of another exchange", func(t *testing.T) {
		host := startHostile(running)
		session := mustConnect(t, host.url, policy)
		var earlier []byte
		host.set(func(path string, status int, body []byte) (int, []byte) {
			if path == "/v1/gateway" {
				if earlier == nil {
					earlier = body
				}
				body = earlier
			}
			return status, body
		})
		if _, err := session.Embed(t.Context(), []string{"another text"}); err != nil {
			t.Fatal(err)
		}
		_, err := session.Embed(t.Context(), []string{secretText})
		expectCode(t, err, "SEAL_OPEN_FAILED")
		// One attempt under the known proof, one under a fresh one.
		if gateway, attested := host.count("/v1/gateway"), host.count("/v1/attestation"); gateway != 3 || attested != 2 {
			t.Error(gateway, attested)
		}
		for _, at := range []int{0, 40, -1} {
			host.set(func(path string, status int, body []byte) (int, []byte) {
				if path == "/v1/gateway" {
					body[(at+len(body))%len(body)] ^= 1
				}
				return status, body
			})
			_, err := session.Embed(t.Context(), []string{secretText})
			expectCode(t, err, "SEAL_OPEN_FAILED")
		}
	})

	t.Run("ends at once where the host is busy", func(t *testing.T) {
		host := startHostile(running)
		session := mustConnect(t, host.url, policy)
		for status, denied := range map[int][2]string{
			429: {`{"code":"SOURCE_BUSY"}`, "SOURCE_BUSY"}, 413: {`{"code":"` + secretText + `"}`, "HOST_REFUSED"},
			503: {`{"code":"BUSY"}`, "BUSY"},
		} {
			before := host.count("/v1/gateway")
			host.set(func(string, int, []byte) (int, []byte) { return status, []byte(denied[0]) })
			_, err := session.Embed(t.Context(), []string{secretText})
			expectCode(t, err, denied[1])
			if host.count("/v1/gateway") != before+1 {
				t.Error("it was sent again")
			}
		}
	})

	t.Run("refuses an answer without its receipt", func(t *testing.T) {
		session := mustConnect(t, running.url, policy)
		first, err := session.Do(t.Context(), embedding(t, session))
		if err != nil {
			t.Fatal(err)
		}
		second, err := session.Do(t.Context(), embedding(t, session))
		if err != nil {
			t.Fatal(err)
		}
		pending := &pendingAnswer{
			proof: session.proof, method: "POST", inner: first.request, nonce: first.Receipt.Nonce, salt: saltOf(first.request),
			date: first.Receipt.IssuedAt,
		}
		now := first.Receipt.IssuedAt
		finish := func(pending *pendingAnswer, receipt []byte, content []byte, now time.Time) error {
			fields := []innerField{{"clearseal-receipt", base64.RawURLEncoding.EncodeToString(receipt)}}
			_, err := pending.finish(&innerMessage{status: 200, fields: fields, content: content}, now)
			return err
		}
		if err := finish(pending, first.receipt, first.Content, now); err != nil {
			t.Fatal(err)
		}
		expectCode(t, finish(pending, nil, first.Content, now), "RECEIPT_MISSING")
		expectCode(t, finish(pending, second.receipt, first.Content, now), "REQUEST_HASH_MISMATCH")
		expectCode(t, finish(pending, first.receipt, append([]byte(" "), first.Content...), now), "RESPONSE_HASH_MISMATCH")
		expectCode(t, finish(pending, first.receipt, second.Content, now), "RESPONSE_HASH_MISMATCH")
		expectCode(t, finish(pending, first.receipt, first.Content, now.Add(-61*time.Second)), "TIMESTAMP_FUTURE")
		late := *pending
		late.date = now.Add(200 * time.Second)
		expectCode(t, finish(&late, first.receipt, first.Content, now.Add(200*time.Second)), "TIMESTAMP_STALE")
		other := *pending
		other.nonce = make([]byte, 32)
		expectCode(t, finish(&other, first.receipt, first.Content, now), "NONCE_MISMATCH")
		other = *pending
		another := mustConnect(t, running.url, policy)
		other.proof = another.proof
		expectCode(t, finish(&other, first.receipt, first.Content, now), "ATTESTATION_DOC_MISMATCH")
		manifest := *session.proof.Manifest
		manifest.ReceiptKey[0] ^= 1
		proof := *session.proof
		proof.Manifest = &manifest
		other.proof = &proof
		if code := CodeOf(finish(&other, first.receipt, first.Content, now)); code != "BAD_KEY" && code != "SIG_FAILED" {
			t.Error(code)
		}
	})

	t.Run("returns refusals of the enclave", func(t *testing.T) {
		session := mustConnect(t, running.url, policy)
		answer, err := session.Do(t.Context(), Request{Method: "GET", Path: "/v1/models"})
		if err != nil || answer.Status != 200 || answer.Receipt != nil || answer.Bundle(true) != nil {
			t.Error(err)
		}
		_, err = session.Embed(t.Context(), []string{""})
		expectCode(t, err, "INPUT_EMPTY")
		_, err = session.Embed(t.Context(), []string{secretText + strings.Repeat(" and more", 10_000)})
		expectCode(t, err, "TEXT_TOO_LONG")
		_, err = session.Do(t.Context(), Request{Method: "POST", Path: "/v1/embeddings", Content: make([]byte, maxRequest)})
		expectCode(t, err, "INNER_TOO_LARGE")
		_, err = session.Do(t.Context(), Request{Method: "GET", Path: "/v1/models", Accept: "a\nb"})
		expectCode(t, err, "INNER_BAD_FIELD")
	})

	t.Run("is safe for concurrent use", func(t *testing.T) {
		session := mustConnect(t, running.url, policy)
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				if _, err := session.Embed(t.Context(), []string{secretText}); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
	})

	t.Run("verifies a bundle without a network", func(t *testing.T) {
		session := mustConnect(t, running.url, policy)
		answer, err := session.Do(t.Context(), embedding(t, session))
		if err != nil {
			t.Fatal(err)
		}
		for _, withContent := range []bool{true, false} {
			bundle := answer.Bundle(withContent)
			receipt, err := VerifyReceipt(bundle, policy)
			if err != nil || receipt.ID != answer.Receipt.ID || receipt.Verdict != Simulated {
				t.Fatal(err)
			}
			if bytes.Contains(bundle, []byte("request\":")) != withContent {
				t.Error("content")
			}
			damageBundle(t, bundle, policy)
		}
		_, err = VerifyReceipt(answer.Bundle(true), changed(t, running, "policy_version", "another"))
		expectCode(t, err, "POLICY_VERSION_MISMATCH")
		_, err = VerifyReceipt(answer.Bundle(true), nil)
		expectCode(t, err, "POLICY_MISSING")
	})

	t.Run("refuses a flipped bit of evidence", func(t *testing.T) {
		session := mustConnect(t, running.url, policy)
		damageEvidence(t, session.proof, policy)
	})

	t.Run("drops into an http.Client", func(t *testing.T) {
		host := startHostile(running)
		session := mustConnect(t, host.url, policy)
		client := &http.Client{Transport: session.RoundTripper()}
		body := embedding(t, session).Content
		request, err := http.NewRequest("POST", session.BaseURL()+"/embeddings", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("content-type", "application/json")
		request.Header.Set("authorization", "Bearer a-secret-key")
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		content, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != 200 || response.Header.Get("clearseal-receipt") != "" {
			t.Fatal(response.StatusCode, err)
		}
		answer := AnswerOf(response)
		if answer == nil || answer.Receipt == nil || !bytes.Equal(answer.Content, content) {
			t.Error("no answer behind the response")
		}
		for _, seen := range host.bodies {
			if bytes.Contains(seen, []byte("a-secret-key")) || bytes.Contains(seen, []byte("enclave reads")) {
				t.Error("the host saw a secret")
			}
		}
		host.set(func(string, int, []byte) (int, []byte) { return 502, nil })
		_, err = client.Get(session.BaseURL() + "/models")
		expectCode(t, err, "HOST_REFUSED")
		if AnswerOf(nil) != nil || AnswerOf(&http.Response{}) != nil {
			t.Error("an answer of nothing")
		}
	})

	// Last: it changes the keys.
	t.Run("goes on after a restart of the enclave", func(t *testing.T) {
		session := mustConnect(t, running.url, running.policy())
		// A new enclave has a new development root, so the policy has to come from it.
		session.policy = nil
		running.restartEnclave()
		if _, err := session.Embed(t.Context(), []string{secretText}); err != nil {
			t.Fatal(err)
		}
	})
}

// embedding is a request for one vector.
func embedding(t *testing.T, session *Session) Request {
	t.Helper()
	body, err := json.Marshal(map[string]any{"model": session.Attestation().Manifest.ModelID, "input": secretText})
	if err != nil {
		t.Fatal(err)
	}
	return Request{Method: "POST", Path: "/v1/embeddings", ContentType: "application/json", Content: body}
}

// changed is the service's policy with another value of one member, or without it.
func changed(t *testing.T, running *service, member string, value any) *Policy {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal(running.get("/v1/development-policy"), &members); err != nil {
		t.Fatal(err)
	}
	members[member] = value
	if value == nil {
		delete(members, member)
	}
	text, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := ReadPolicy(text)
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

// damageBundle changes each member of a bundle in several places, and requires a refusal with a code each time.
func damageBundle(t *testing.T, bundle []byte, policy *Policy) {
	t.Helper()
	var members map[string]string
	if err := json.Unmarshal(bundle, &members); err != nil {
		t.Fatal(err)
	}
	attempt := func(what string, changed map[string]string) {
		text, err := json.Marshal(changed)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := VerifyReceipt(text, policy); CodeOf(err) == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	for member, text := range members {
		copied := func(value string) map[string]string {
			changed := map[string]string{}
			for name, before := range members {
				changed[name] = before
			}
			changed[member] = value
			return changed
		}
		attempt(member+" empty", copied(""))
		attempt(member+" with padding", copied(text+"="))
		attempt(member+" with a line break", copied(text+"\n"))
		without := copied("")
		delete(without, member)
		attempt(member+" left out", without)
		if member == "format" {
			continue
		}
		content, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(content); at += 1 + len(content)/40 {
			changed := slices.Clone(content)
			changed[at] ^= 1 << (at % 8)
			attempt(member, copied(base64.RawURLEncoding.EncodeToString(changed)))
		}
	}
	attempt("another member", map[string]string{"format": bundleFormat, "more": ""})
	for _, text := range []string{"", "[]", "{}", `{"format":1}`, string(bundle) + "x", `{"format":"a","format":"b"}`} {
		_, err := VerifyReceipt([]byte(text), policy)
		expectCode(t, err, "BUNDLE_MALFORMED")
	}
}

// damageEvidence flips a bit in each byte of document and manifest.
func damageEvidence(t *testing.T, proof *Attestation, policy *Policy) {
	t.Helper()
	at := proof.Document.Timestamp
	freshness := Live(proof.Document.Nonce, at)
	if _, err := Appraise(proof.evidence, policy, freshness); err != nil {
		t.Fatal(err)
	}
	for part, original := range map[string][]byte{"document": proof.evidence.Document, "manifest": proof.evidence.Manifest} {
		for place := range original {
			evidence := proof.evidence
			flipped := slices.Clone(original)
			flipped[place] ^= 1 << (place % 8)
			if part == "document" {
				evidence.Document = flipped
			} else {
				evidence.Manifest = flipped
			}
			if _, err := Appraise(evidence, policy, freshness); CodeOf(err) == "" {
				t.Errorf("byte %d of the %s: %v", place, part, err)
			}
		}
	}
	for _, nonce := range [][]byte{make([]byte, 32), proof.Document.Nonce[:15], nil} {
		_, err := Appraise(proof.evidence, policy, Live(nonce, at))
		if code := CodeOf(err); code != "NONCE_MISMATCH" && code != "NONCE_TOO_SHORT" {
			t.Error(err)
		}
	}
}
