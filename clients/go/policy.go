package clearseal

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	policyFormat = "clearseal-trust-policy/1"
	maxPolicy    = 64 * 1024
	// maxText is the longest name or version, in bytes.
	maxText = 256
)

// Policy is a trust policy (docs/POLICY.md). It always names a root and a release.
type Policy struct {
	name          string
	root          []byte
	aws           bool
	withEvidence  bool
	notAfter      *time.Time
	releases      []release
	maxAge        time.Duration
	clockSkew     time.Duration
	revocation    bool
	securityMode  *string
	policyVersion *string
	model         *modelPin
}

type release struct {
	name                string
	registers           map[int]Register
	notBefore, notAfter *time.Time
}

type modelPin struct {
	id     string
	sha256 [32]byte
}

// ReadPolicy reads a policy that its user chose: a file, a constant, an argument. Never pass it text from the service.
func ReadPolicy(json []byte) (*Policy, error) { return readPolicy(json, false) }

// ReadPolicyWithEvidence reads a policy that came from the judged service, or together with evidence. Under it the best verdict is
// [Simulated].
func ReadPolicyWithEvidence(json []byte) (*Policy, error) { return readPolicy(json, true) }

// Name returns the policy's name.
func (p *Policy) Name() string { return p.name }

// proves reports whether a full pass under this policy yields [Verified].
func (p *Policy) proves() bool { return p.aws && !p.withEvidence }

// members is a JSON object whose members are taken one by one.
type members struct {
	path string
	left map[string]any
}

func openMembers(value any, path string) (*members, error) {
	object, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is not an object", path)
	}
	return &members{path, maps.Clone(object)}, nil
}

func (m *members) place(name string) string {
	if m.path == "the policy" {
		return name
	}
	return m.path + "." + name
}

func (m *members) take(name string) (any, bool) {
	value, ok := m.left[name]
	delete(m.left, name)
	return value, ok
}

// text takes a string that is required.
func (m *members) text(name string) (string, error) {
	value, _ := m.take(name)
	text, ok := value.(string)
	if !ok {
		return "", fmt.Errorf("%s is missing or not a string", m.place(name))
	}
	return text, nil
}

// optional takes a string that may be absent or null.
func (m *members) optional(name string) (*string, error) {
	value, _ := m.take(name)
	if value == nil {
		return nil, nil
	}
	text, ok := value.(string)
	if !ok {
		return nil, fmt.Errorf("%s is not a string", m.place(name))
	}
	return &text, nil
}

func (m *members) seconds(name string, absent uint64) (uint64, error) {
	value, ok := m.take(name)
	if !ok {
		return absent, nil
	}
	number, ok := wholeNumber(value)
	if !ok {
		return 0, fmt.Errorf("%s is not a whole number of seconds", m.place(name))
	}
	return number, nil
}

func (m *members) moment(name string) (*time.Time, error) {
	text, err := m.optional(name)
	if text == nil || err != nil {
		return nil, err
	}
	moment, ok := parseMoment(*text)
	if !ok {
		return nil, refuse("POLICY_INVALID", "%s is not a date and time of RFC 3339", m.place(name))
	}
	return &moment, nil
}

// end refuses the members that were not taken.
func (m *members) end() error {
	if len(m.left) == 0 {
		return nil
	}
	unknown := slices.Sorted(maps.Keys(m.left))[0]
	return fmt.Errorf("%s is not a key of a trust policy", m.place(unknown))
}

func readPolicy(json []byte, withEvidence bool) (*Policy, error) {
	policy, err := parsePolicy(json)
	if err != nil {
		if _, ok := errors.AsType[*Error](err); ok {
			return nil, err
		}
		return nil, refuse("POLICY_UNREADABLE", "%v", err)
	}
	policy.withEvidence = withEvidence
	return policy, policy.check()
}

func parsePolicy(json []byte) (*Policy, error) {
	if len(json) > maxPolicy {
		return nil, fmt.Errorf("the policy is larger than %d bytes", maxPolicy)
	}
	value, err := readJSON(json)
	if err != nil {
		return nil, fmt.Errorf("the policy: %w", err)
	}
	object, err := openMembers(value, "the policy")
	if err != nil {
		return nil, err
	}
	if format, err := object.text("format"); err != nil || format != policyFormat {
		return nil, fmt.Errorf("the policy's format is not %q", policyFormat)
	}
	policy := &Policy{}
	if policy.name, err = object.text("name"); err != nil {
		return nil, err
	}
	// The number orders the policies of one publisher; this client follows no publisher.
	if sequence, ok := object.take("sequence"); ok {
		if number, whole := wholeNumber(sequence); !whole || strings.ContainsAny(fmt.Sprint(sequence), ".eE") {
			return nil, fmt.Errorf("sequence is not a number (%d)", number)
		}
	}
	if err := policy.readRoot(object); err != nil {
		return nil, err
	}
	if policy.notAfter, err = object.moment("not_after"); err != nil {
		return nil, err
	}
	if err := policy.readReleases(object); err != nil {
		return nil, err
	}
	if err := policy.readDemands(object); err != nil {
		return nil, err
	}
	return policy, object.end()
}

func (p *Policy) readRoot(object *members) error {
	value, _ := object.take("root")
	if value == "aws-nitro-enclaves-g1" {
		p.aws, p.root = true, awsRoot
		return nil
	}
	root, err := openMembers(value, "root")
	if err != nil {
		return errors.New(`root is neither "aws-nitro-enclaves-g1" nor {"development": …}`)
	}
	text, err := root.text("development")
	if err != nil {
		return err
	}
	if err := root.end(); err != nil {
		return err
	}
	encoded, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return refuse("POLICY_INVALID", "the development root is not base64")
	}
	if _, err := parseCertificate(encoded); err != nil {
		return refuse("POLICY_INVALID", "the development root: %v", err)
	}
	// AWS's root is AWS's however it is named.
	p.aws, p.root = bytes.Equal(encoded, awsRoot), encoded
	return nil
}

func (p *Policy) readReleases(object *members) error {
	value, _ := object.take("releases")
	list, ok := value.([]any)
	if !ok {
		return errors.New("releases is missing or not a list")
	}
	for at, item := range list {
		entry, err := openMembers(item, fmt.Sprintf("releases[%d]", at))
		if err != nil {
			return err
		}
		read := release{registers: map[int]Register{}}
		if read.name, err = entry.text("name"); err != nil {
			return err
		}
		registers, _ := entry.take("pcrs")
		pinned, ok := registers.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is missing or not an object", entry.place("pcrs"))
		}
		for key, value := range pinned {
			index, err := strconv.ParseUint(key, 10, 8)
			if err != nil || strconv.FormatUint(index, 10) != key {
				return fmt.Errorf("%s has a key that is not a register", entry.place("pcrs"))
			}
			digits, _ := value.(string)
			decoded, err := hex.DecodeString(digits)
			if err != nil || len(decoded) != len(Register{}) {
				return refuse("POLICY_INVALID", "%s.%d is not 96 hex digits", entry.place("pcrs"), index)
			}
			read.registers[int(index)] = Register(decoded)
		}
		if read.notBefore, err = entry.moment("not_before"); err != nil {
			return err
		}
		if read.notAfter, err = entry.moment("not_after"); err != nil {
			return err
		}
		if err := entry.end(); err != nil {
			return err
		}
		p.releases = append(p.releases, read)
	}
	return nil
}

func (p *Policy) readDemands(object *members) error {
	age, err := object.seconds("max_age_seconds", 300)
	if err != nil {
		return err
	}
	skew, err := object.seconds("clock_skew_seconds", 60)
	if err != nil {
		return err
	}
	if age < 1 || age > 86_400 {
		return refuse("POLICY_INVALID", "max_age_seconds goes from 1 to 86400")
	}
	if skew > 600 {
		return refuse("POLICY_INVALID", "clock_skew_seconds goes from 0 to 600")
	}
	p.maxAge, p.clockSkew = time.Duration(age)*time.Second, time.Duration(skew)*time.Second
	switch value, ok := object.take("revocation"); {
	case !ok || value == "when-given":
	case value == "required":
		p.revocation = true
	default:
		return errors.New(`revocation is neither "when-given" nor "required"`)
	}
	if p.securityMode, err = object.optional("security_mode"); err != nil {
		return err
	}
	if p.securityMode != nil && !isSecurityMode(*p.securityMode) {
		return errors.New(`security_mode is neither "production" nor "evaluation"`)
	}
	if p.policyVersion, err = object.optional("policy_version"); err != nil {
		return err
	}
	value, _ := object.take("model")
	if value == nil {
		return nil
	}
	model, err := openMembers(value, "model")
	if err != nil {
		return err
	}
	pin := &modelPin{}
	if pin.id, err = model.text("id"); err != nil {
		return err
	}
	digits, err := model.text("sha256")
	if err != nil {
		return err
	}
	hash, err := hex.DecodeString(digits)
	if err != nil || len(hash) != 32 {
		return refuse("POLICY_INVALID", "model.sha256 is not 64 hex digits")
	}
	pin.sha256 = [32]byte(hash)
	p.model = pin
	return model.end()
}

func (p *Policy) check() error {
	if len(p.releases) == 0 {
		return refuse("POLICY_EMPTY", "the policy names no release")
	}
	texts := []string{p.name}
	names := map[string]bool{}
	for _, release := range p.releases {
		if names[release.name] {
			return refuse("POLICY_INVALID", "two releases have the same name")
		}
		names[release.name] = true
		texts = append(texts, release.name)
		if err := release.check(); err != nil {
			return err
		}
	}
	if p.policyVersion != nil {
		texts = append(texts, *p.policyVersion)
	}
	if p.model != nil {
		texts = append(texts, p.model.id)
	}
	for _, text := range texts {
		if text == "" || len(text) > maxText {
			return refuse("POLICY_INVALID", "a name is empty or too long")
		}
	}
	return nil
}

func (r *release) check() error {
	pins := func(index int) bool { _, ok := r.registers[index]; return ok }
	// Every enclave in debug mode has zeros in the first three, every unsigned one in PCR8.
	for _, index := range []int{0, 1, 2, 8} {
		if pins(index) && r.registers[index] == (Register{}) {
			return refuse("POLICY_TOO_WIDE", "release %q pins zeros as PCR%d", r.name, index)
		}
	}
	if !pins(0) && !(pins(1) && pins(2)) && !pins(8) {
		return refuse("POLICY_TOO_WIDE", "release %q identifies no image: pin PCR0, or PCR1 with PCR2, or PCR8", r.name)
	}
	if r.notBefore != nil && r.notAfter != nil && r.notBefore.After(*r.notAfter) {
		return refuse("POLICY_INVALID", "a release ends before it begins")
	}
	for index := range r.registers {
		if index >= maxRegister {
			return refuse("POLICY_INVALID", "registers go from 0 to 31")
		}
	}
	return nil
}

// matches reports whether every pinned register is the document's. Registers of two releases never mix.
func (r *release) matches(measured map[int]Register) bool {
	for index, pinned := range r.registers {
		if value, ok := measured[index]; !ok || value != pinned {
			return false
		}
	}
	return true
}

// isAccepted compares with both ends, which are inclusive, in milliseconds.
func (r *release) isAccepted(at time.Time) bool {
	return (r.notBefore == nil || !at.Before(*r.notBefore)) && !isPast(r.notAfter, at)
}

func isPast(end *time.Time, at time.Time) bool { return end != nil && at.After(*end) }

func isSecurityMode(text string) bool { return text == "production" || text == "evaluation" }

// isSameModel reports equal names, where an organisation may precede one of them.
func isSameModel(a, b string) bool {
	extends := func(long, short string) bool {
		organisation, ok := strings.CutSuffix(long, short)
		return ok && strings.HasSuffix(organisation, "/") && !strings.Contains(short, "/")
	}
	return a == b || extends(a, b) || extends(b, a)
}
