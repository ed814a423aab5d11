package clearseal

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

var pinnedRegister = strings.Repeat("aa", 48)

// policyWith is a small policy with further members.
func policyWith(members string) []byte {
	return fmt.Appendf(nil, `{"format":%q,"name":"p","root":"aws-nitro-enclaves-g1",
		"releases":[{"name":"1","pcrs":{"0":%q}}]%s}`, policyFormat, pinnedRegister, members)
}

func TestPoliciesAreReadStrictly(t *testing.T) {
	for members, code := range map[string]string{
		``:                                    "",
		`,"sequence":7`:                       "",
		`,"sequence":7.0`:                     "POLICY_UNREADABLE",
		`,"max_age_seconds":3e2`:              "",
		`,"max_age_seconds":300.0`:            "",
		`,"max_age_seconds":300.5`:            "POLICY_UNREADABLE",
		`,"max_age_seconds":null`:             "POLICY_UNREADABLE",
		`,"max_age_seconds":"300"`:            "POLICY_UNREADABLE",
		`,"max_age_seconds":0`:                "POLICY_INVALID",
		`,"max_age_seconds":86401`:            "POLICY_INVALID",
		`,"clock_skew_seconds":601`:           "POLICY_INVALID",
		`,"revocation":"required"`:            "",
		`,"revocation":"sometimes"`:           "POLICY_UNREADABLE",
		`,"revocation":null`:                  "POLICY_UNREADABLE",
		`,"security_mode":"production"`:       "",
		`,"security_mode":"Production"`:       "POLICY_UNREADABLE",
		`,"policy_version":""`:                "POLICY_INVALID",
		`,"policy_version":null`:              "",
		`,"model":{"id":"m"}`:                 "POLICY_UNREADABLE",
		`,"model":{"id":"m","sha256":"00"}`:   "POLICY_INVALID",
		`,"not_after":"2027-01-31"`:           "POLICY_INVALID",
		`,"not_after":"2027-01-31 00:00:00z"`: "",
		`,"Name":"p"`:                         "POLICY_UNREADABLE",
		`,"name":"p"`:                         "POLICY_UNREADABLE",
		`,"require_audit":true`:               "POLICY_UNREADABLE",
		`} {}`:                                "POLICY_UNREADABLE",
		`,"model":{"id":"m","sha256":"` + strings.Repeat("5e", 32) + `","dimension":384}`: "POLICY_UNREADABLE",
	} {
		if _, err := ReadPolicy(policyWith(members)); CodeOf(err) != code {
			t.Errorf("%s: expected %q, got %v", members, code, err)
		}
	}
	// An error names the member that this client does not know.
	_, err := ReadPolicy(policyWith(`,"require_audit":true`))
	if err == nil || !strings.Contains(err.Error(), "require_audit is not a key") {
		t.Error(err)
	}
	if _, err := ReadPolicy(append([]byte("\xef\xbb\xbf"), policyWith("")...)); err != nil {
		t.Error(err)
	}
	if _, err := ReadPolicy(append(policyWith(""), make([]byte, maxPolicy)...)); CodeOf(err) != "POLICY_UNREADABLE" {
		t.Error(err)
	}
}

func TestReleasesIdentifyAnImage(t *testing.T) {
	zeros := strings.Repeat("00", 48)
	for releases, code := range map[string]string{
		`[]`:                                                            "POLICY_EMPTY",
		`[{"name":"1","pcrs":{"0":"A"}}]`:                               "POLICY_INVALID",
		`[{"name":"1","pcrs":{"1":"A"}}]`:                               "POLICY_INVALID",
		`[{"name":"1","pcrs":{"1":"R"}}]`:                               "POLICY_TOO_WIDE",
		`[{"name":"1","pcrs":{"3":"R","2":"R"}}]`:                       "POLICY_TOO_WIDE",
		`[{"name":"1","pcrs":{"1":"R","2":"R"}}]`:                       "",
		`[{"name":"1","pcrs":{"8":"R"}}]`:                               "",
		`[{"name":"1","pcrs":{"0":"R","8":"Z"}}]`:                       "POLICY_TOO_WIDE",
		`[{"name":"1","pcrs":{"0":"R","3":"Z"}}]`:                       "",
		`[{"name":"1","pcrs":{"00":"R"}}]`:                              "POLICY_UNREADABLE",
		`[{"name":"1","pcrs":{"0":"R","0":"R"}}]`:                       "POLICY_UNREADABLE",
		`[{"name":"1","pcrs":{"0":"R","32":"R"}}]`:                      "POLICY_INVALID",
		`[{"name":"1","pcr":{"0":"R"}}]`:                                "POLICY_UNREADABLE",
		`[{"name":"1","pcrs":{"0":"R"}},{"name":"1","pcrs":{"0":"R"}}]`: "POLICY_INVALID",
		`[{"name":"1","pcrs":{"0":"R"},"not_before":"2027-01-02T00:00:00Z","not_after":"2027-01-01T00:00:00Z"}]`: "POLICY_INVALID",
	} {
		text := strings.NewReplacer(`"R"`, `"`+pinnedRegister+`"`, `"Z"`, `"`+zeros+`"`).Replace(releases)
		policy := fmt.Sprintf(`{"format":%q,"name":"p","root":"aws-nitro-enclaves-g1","releases":%s}`, policyFormat, text)
		if _, err := ReadPolicy([]byte(policy)); CodeOf(err) != code {
			t.Errorf("%s: expected %q, got %v", releases, code, err)
		}
	}
}

func TestMomentsAreThoseOfRFC3339(t *testing.T) {
	for text, millis := range map[string]int64{
		"1970-01-01T00:00:00Z":             0,
		"2026-11-20T14:03:00.25Z":          1_795_183_380_250,
		"2026-11-20 14:03:00.250999+00:00": 1_795_183_380_250,
		"2026-11-20t06:33:00.25-07:30":     1_795_183_380_250,
		"1969-12-31T23:30:00-01:00":        1_800_000,
		"1990-12-31T15:59:60-08:00":        662_688_000_000,
		"2015-06-30T23:59:60.5Z":           1_435_708_800_500,
		"9999-12-31T23:59:59.9999999Z":     lastMoment,
	} {
		if moment, ok := parseMoment(text); !ok || moment.UnixMilli() != millis {
			t.Errorf("%s: %v", text, moment)
		}
	}
	for _, text := range []string{
		"", "2026-02-30T00:00:00Z", "2025-02-29T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:00:60Z", "2026-01-01T00:00:00",
		"2026-01-01", "2026-01-01T00:00Z", "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00,5Z", "2026-01-01T00:00:00+0000",
		"2026-01-01T00:00:00+24:00", "2026-01-01T00:00:00Z ", "1969-12-31T23:59:59Z", "0000-01-01T00:00:00Z",
		"9999-12-31T23:59:59-00:01", "2026-11-30T23:59:60Z", "2026-12-31T23:59:61Z", "2026-12-31T23:59:60+01:00",
		"+026-01-01T00:00:00Z", "2026-01-01T00:00:00.5",
	} {
		if moment, ok := parseMoment(text); ok {
			t.Errorf("%s: %v", text, moment)
		}
	}
}

func TestModelsWithAndWithoutOrganisation(t *testing.T) {
	for _, pair := range []struct {
		a, b string
		same bool
	}{
		{"org/m", "m", true}, {"m", "org/m", true}, {"m", "m", true}, {"a/m", "b/m", false}, {"m", "xm", false}, {"a/b/m", "b/m", false},
	} {
		if isSameModel(pair.a, pair.b) != pair.same {
			t.Error(pair)
		}
	}
}

func TestAPolicyThatProvesNothing(t *testing.T) {
	chosen, err := ReadPolicy(policyWith(""))
	if err != nil || !chosen.proves() {
		t.Fatal(err)
	}
	offered, err := ReadPolicyWithEvidence(policyWith(""))
	if err != nil || offered.proves() {
		t.Fatal(err)
	}
	if _, err := Appraise(Evidence{}, nil, AsOf(time.Now(), nil)); CodeOf(err) != "POLICY_MISSING" {
		t.Fatal(err)
	}
}
