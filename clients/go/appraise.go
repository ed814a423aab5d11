package clearseal

import (
	"bytes"
	"crypto/sha256"
	"time"
)

// Verdict is the outcome of an appraisal without a refusal.
type Verdict string

const (
	// Verified means that every check passed, under AWS's root and a policy that the user chose.
	Verified Verdict = "verified"
	// Authentic means that genuine hardware signed the document; image, age or keys were not all judged.
	Authentic Verdict = "authentic"
	// Simulated means that every check passed, but under a development root or a policy that came with the evidence. It proves
	// nothing.
	Simulated Verdict = "simulated"
)

// Freshness states the moment of an appraisal, and the nonce that the document must answer. [Live], [AsOf] and [Audit] make one.
type Freshness struct {
	at    time.Time
	nonce []byte
	live  bool
	audit bool
}

// Live is a connection: the document must answer nonce, at least 16 random bytes that were used once, and be young.
func Live(nonce []byte, now time.Time) Freshness { return Freshness{at: now, nonce: nonce, live: true} }

// AsOf is a moment that the verdict applies to. A nil nonce is not compared, and the verdict is then never [Verified].
func AsOf(at time.Time, nonce []byte) Freshness { return Freshness{at: at, nonce: nonce} }

// Audit is the moment of an action that relied on a document, such as a receipt's time. The document's age is not judged.
func Audit(at time.Time) Freshness { return Freshness{at: at, audit: true} }

// Attestation is the outcome of an appraisal that refused nothing.
type Attestation struct {
	Verdict  Verdict
	Document *Document
	// Manifest is nil if none was given.
	Manifest *Manifest
	// Release names the release whose registers matched.
	Release string
	// ValidUntil is the last moment at which the keys may be used, by the enclave's clock.
	ValidUntil time.Time

	live bool
	// offset is the enclave's clock minus ours.
	offset   time.Duration
	evidence Evidence
}

// Inspect checks whether a document is authentic under AWS's root as of at (checks 1 to 21, and 27 if lists are given). It judges
// no image.
func Inspect(document []byte, crls []byte, at time.Time) (*Document, error) {
	parsed, err := ParseDocument(document)
	if err != nil {
		return nil, err
	}
	_, err = parsed.authenticate(awsRoot, crls, at)
	return parsed, err
}

// authenticated is what the chain shows.
type authenticated struct {
	chain      *verifiedChain
	revocation *revocation
}

func (d *Document) authenticate(root, crls []byte, at time.Time) (*authenticated, error) {
	chain, err := d.verifyChain(root, at)
	if err != nil {
		return nil, err
	}
	if err := d.verifySignature(chain); err != nil {
		return nil, err
	}
	revocation, err := chain.checkRevocation(crls, at)
	return &authenticated{chain, revocation}, err
}

// Appraise makes every check of docs/CHECKS.md. An error is a refusal; a check that cannot be made is one too.
//
// Without a manifest the image and the age are judged, and no keys are returned: Manifest is nil, and the verdict is at most
// [Authentic].
func Appraise(evidence Evidence, policy *Policy, freshness Freshness) (*Attestation, error) {
	if policy == nil {
		return nil, refuse("POLICY_MISSING", "there is no trust policy")
	}
	document, err := ParseDocument(evidence.Document)
	if err != nil {
		return nil, err
	}
	at := freshness.at.Truncate(time.Millisecond)
	shown, err := document.authenticate(policy.root, evidence.CRLs, at)
	if err != nil {
		return nil, err
	}
	if policy.revocation && shown.revocation.uncovered != "" {
		return nil, refuse("REVOCATION_UNKNOWN", "no revocation list covers %s", shown.revocation.uncovered)
	}
	if document.debugMode() {
		return nil, refuse("DEBUG_MODE", "PCR0, PCR1 or PCR2 is all zero")
	}
	matched, err := policy.checkMeasurements(document, at)
	if err != nil {
		return nil, err
	}
	if err := policy.checkFreshness(document, at, freshness); err != nil {
		return nil, err
	}
	attestation := &Attestation{
		Verdict: Authentic, Document: document, Release: matched.name, live: freshness.live,
		ValidUntil: shown.chain.notAfter, evidence: evidence,
	}
	if freshness.live {
		attestation.offset = document.Timestamp.Sub(at)
	}
	attestation.limit(matched.notAfter)
	attestation.limit(policy.notAfter)
	if policy.revocation {
		attestation.limit(shown.revocation.nextUpdate)
	}
	genuine := policy.proves()
	if !genuine {
		attestation.Verdict = Simulated
	}
	if evidence.Manifest == nil {
		return attestation, nil
	}
	if attestation.Manifest, err = policy.bind(document, evidence.Manifest, at); err != nil {
		return nil, err
	}
	until := time.Unix(int64(attestation.Manifest.NotAfter), 0)
	attestation.limit(&until)
	// Without a nonce to compare, the current owner of the keys is unknown.
	if genuine && (freshness.audit || freshness.nonce != nil) {
		attestation.Verdict = Verified
	}
	return attestation, nil
}

func (a *Attestation) limit(end *time.Time) {
	if end != nil && end.Before(a.ValidUntil) {
		a.ValidUntil = *end
	}
}

// enclaveTime is the enclave's time at a local moment.
func (a *Attestation) enclaveTime(local time.Time) time.Time { return local.Add(a.offset) }

// checkMeasurements makes check 22.
func (p *Policy) checkMeasurements(document *Document, at time.Time) (*release, error) {
	if isPast(p.notAfter, at) {
		return nil, refuse("POLICY_EXPIRED", "policy %q ended at %s", p.name, p.notAfter.Format(time.RFC3339))
	}
	var other *release
	for index := range p.releases {
		release := &p.releases[index]
		if !release.matches(document.Registers) {
			continue
		}
		if release.isAccepted(at) {
			return release, nil
		}
		if other == nil {
			other = release
		}
	}
	switch {
	case other == nil:
		return nil, refuse("PCR_MISMATCH", "the registers match no release of policy %q", p.name)
	case other.notBefore != nil && at.Before(*other.notBefore):
		return nil, refuse("RELEASE_NOT_YET_ACCEPTED", "release %q is accepted from %s", other.name, other.notBefore.Format(time.RFC3339))
	}
	return nil, refuse("RELEASE_EXPIRED", "release %q was accepted until %s", other.name, other.notAfter.Format(time.RFC3339))
}

// checkFreshness makes check 24 (RFC 9334 §10).
func (p *Policy) checkFreshness(document *Document, now time.Time, freshness Freshness) error {
	if freshness.live && len(freshness.nonce) < minNonce {
		return refuse("NONCE_TOO_SHORT", "the nonce has %d bytes", len(freshness.nonce))
	}
	if freshness.nonce != nil && (document.Nonce == nil || !bytes.Equal(document.Nonce, freshness.nonce)) {
		return refuse("NONCE_MISMATCH", "the document answers another nonce")
	}
	// Before the age: a timestamp in the future has a small age too.
	if document.Timestamp.After(now.Add(p.clockSkew)) {
		return refuse("DOCUMENT_FROM_FUTURE", "the document was made %s after the judged moment", document.Timestamp.Sub(now))
	}
	if age := now.Sub(document.Timestamp); !freshness.audit && age > p.maxAge {
		return refuse("DOCUMENT_STALE", "the document is %s old, %s allowed", age, p.maxAge)
	}
	return nil
}

// bind makes check 25.
func (p *Policy) bind(document *Document, encoded []byte, at time.Time) (*Manifest, error) {
	if len(encoded) > maxManifest {
		return nil, refuse("MANIFEST_MALFORMED", "the manifest has %d bytes", len(encoded))
	}
	// Compare the hash first: unattested bytes are not parsed.
	binding := manifestBinding(encoded)
	if !bytes.Equal(document.UserData, binding[:]) {
		return nil, refuse("MANIFEST_MISMATCH", "the attested user_data is not the hash of this manifest")
	}
	manifest, err := ParseManifest(encoded)
	if err != nil {
		return nil, err
	}
	key := manifest.keyOf(kemX25519)
	if len(document.PublicKey) == 0 || key == nil || !bytes.Equal(document.PublicKey, key.publicKey) {
		return nil, refuse("PUBLIC_KEY_MISMATCH", "the attested public_key is not the manifest's X25519 key")
	}
	// A policy that names no model, version or mode cannot bind them.
	switch {
	case p.model == nil || !manifest.chooseModel(p.model):
		return nil, refuse("MODEL_MISMATCH", "the service's model is not the policy's")
	case p.policyVersion == nil || *p.policyVersion != manifest.PolicyVersion:
		return nil, refuse("POLICY_VERSION_MISMATCH", "the service runs under another policy version")
	case p.securityMode == nil || *p.securityMode != manifest.SecurityMode:
		return nil, refuse("SECURITY_MODE_MISMATCH", "the service runs in another security mode")
	}
	now := at.Unix()
	early := now+int64(p.clockSkew/time.Second) < int64(manifest.NotBefore)
	if early || now > int64(manifest.NotAfter) {
		return nil, refuse("MANIFEST_NOT_VALID", "the manifest is outside its own validity")
	}
	return manifest, nil
}

// name identifies one generation of an enclave's keys to a balancer.
func (a *Attestation) enclaveName() []byte {
	hash := sha256.Sum256(a.evidence.Manifest)
	return hash[:8]
}
