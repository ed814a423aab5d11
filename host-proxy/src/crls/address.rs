//! Finds addresses of revocation lists, and decides which are fetched.

use http::Uri;
use http::uri::Authority;

/// Where AWS's root publishes the list of regional certificates.
const AWS_ROOT: &str = "aws-nitro-enclaves-crl.s3.amazonaws.com";
/// Longest address, in bytes; AWS's have at most 120.
const MAX_LENGTH: usize = 127;

/// Hosts that may be asked: AWS's, and those that the operator names. Without this list, the unverified certificates of an enclave
/// would choose the servers that the host contacts.
pub(super) struct Allowed(Vec<String>);

impl Allowed {
    /// `hosts` as `HOST` or `HOST:PORT`.
    pub(super) fn new(hosts: &[String]) -> Self {
        Self(hosts.iter().map(|host| host.to_ascii_lowercase()).collect())
    }

    /// Whether the address is `http://HOST/PATH` of an allowed host, without credentials and query.
    pub(super) fn allows(&self, uri: &Uri) -> bool {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte);
        let path = uri.path();
        // Hosts are the same in upper and in lower case (RFC 3986 §3.2.2).
        let authority = uri.authority().map(Authority::as_str).unwrap_or_default();
        let authority = authority.to_ascii_lowercase();
        uri.scheme_str() == Some("http")
            && uri.query().is_none()
            && path.len() > 1
            && path.bytes().all(is_allowed)
            && (is_aws(&authority) || self.0.contains(&authority))
    }

    /// Finds allowed addresses in the certificates of evidence, without parsing it: an address is a uniformResourceIdentifier (RFC
    /// 5280 §4.2.1.6), which is `86`, a length and `http://…`.
    pub(super) fn find(&self, evidence: &[u8]) -> Vec<String> {
        const SCHEME: &[u8] = b"http://";
        let mut found = Vec::new();
        for (at, window) in evidence.windows(SCHEME.len()).enumerate() {
            if window != SCHEME {
                continue;
            }
            let Some(&[0x86, length]) = at.checked_sub(2).and_then(|from| evidence.get(from..at))
            else {
                continue;
            };
            let text = evidence
                .get(at..at + usize::from(length))
                .filter(|text| text.len() <= MAX_LENGTH)
                .and_then(|text| std::str::from_utf8(text).ok());
            let address = text.filter(|text| text.parse().is_ok_and(|uri| self.allows(&uri)));
            found.extend(address.map(str::to_owned));
        }
        found
    }
}

/// `aws-nitro-enclaves-crl.s3.amazonaws.com`, or `crl-REGION-aws-nitro-enclaves.s3.REGION.amazonaws.com`.
fn is_aws(host: &str) -> bool {
    let regional = || {
        let (region, rest) = host
            .strip_prefix("crl-")?
            .split_once("-aws-nitro-enclaves.s3.")?;
        let is_region =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let same = rest.strip_suffix(".amazonaws.com") == Some(region);
        Some(same && !region.is_empty() && region.bytes().all(is_region))
    };
    host == AWS_ROOT || regional() == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lists_of_aws_and_of_allowed_hosts_are_fetched() {
        let allowed = Allowed::new(&["127.0.0.1:9".to_owned(), "Crl.example".to_owned()]);
        let allows = |uri: &str| uri.parse().is_ok_and(|uri| allowed.allows(&uri));
        for good in [
            "http://aws-nitro-enclaves-crl.s3.amazonaws.com/crl/a-1.crl",
            "http://crl-us-east-1-aws-nitro-enclaves.s3.us-east-1.amazonaws.com/crl/a.crl",
            "http://127.0.0.1:9/a.crl",
            "http://CRL.example/a.crl",
        ] {
            assert!(allows(good), "{good}");
        }
        for bad in [
            "https://aws-nitro-enclaves-crl.s3.amazonaws.com/crl/a.crl",
            "http://aws-nitro-enclaves-crl.s3.amazonaws.com",
            "http://aws-nitro-enclaves-crl.s3.amazonaws.com:81/a.crl",
            "http://user@aws-nitro-enclaves-crl.s3.amazonaws.com/a.crl",
            "http://aws-nitro-enclaves-crl.s3.amazonaws.com/a?b",
            "http://crl-us-east-1-aws-nitro-enclaves.s3.us-west-1.amazonaws.com/a.crl",
            "http://crl-a.example/-aws-nitro-enclaves.s3.a.amazonaws.com/a.crl",
            "http://crl--aws-nitro-enclaves.s3..amazonaws.com/a.crl",
            "http://169.254.169.254/latest/meta-data",
            "http://127.0.0.1/a.crl",
            "http://127.0.0.1:9/%2e%2e/a.crl",
        ] {
            assert!(!allows(bad), "{bad}");
        }
    }

    #[test]
    fn addresses_are_found_by_their_length() {
        let allowed = Allowed::new(&["a".to_owned()]);
        let evidence =
            b"..\x86\x0ehttp://a/b.crl0\n\x86\x30http://a/b\x86\x0ehttp://c/b.crl http://a/c";
        assert_eq!(allowed.find(evidence), ["http://a/b.crl"]);
        assert!(allowed.find(b"http://a/b").is_empty());
        assert!(allowed.find(b"\x0ehttp://a/b.crl").is_empty());
    }
}
