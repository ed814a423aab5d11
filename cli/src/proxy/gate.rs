//! Admission of requests, by host name, origin and API key.

use std::net::IpAddr;
use std::str::FromStr;

use http::{HeaderMap, HeaderValue, Uri, header};
use subtle::ConstantTimeEq;

use super::refusal::Refusal;
use crate::args::ProxyArgs;

pub(super) struct Gate {
    /// Names other than this machine's loopback.
    names: Vec<HostName>,
    api_key: Option<String>,
    /// Whether the status page and the health check need the key, too.
    is_remote: bool,
}

impl Gate {
    pub(super) fn new(args: &ProxyArgs) -> Self {
        let mut names = args.allow_host.clone();
        // The address of --listen is allowed too: no web page can have it as its name.
        if !args.listen.ip().is_unspecified() {
            names.push(HostName::Address(args.listen.ip().to_canonical()));
        }
        Self {
            names,
            api_key: args.api_key.clone(),
            is_remote: args.allow_remote,
        }
    }

    /// Refuses requests that a web page could have sent: under its own name, rebound to this machine, or across origins.
    pub(super) fn admit(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        // RFC 9112 §3.2: one field, no more.
        let mut hosts = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return Err(Refusal::HOST);
        };
        // §3.2.2: an absolute request target replaces the field. Both have to be right.
        let authority = uri.authority().map(http::uri::Authority::as_str);
        let mut names = host.to_str().ok().into_iter().chain(authority);
        let is_right =
            |name: &str| HostName::of_authority(name).is_some_and(|name| self.knows(&name));
        if host.to_str().is_err() || !names.all(is_right) {
            return Err(Refusal::HOST);
        }
        // https://www.w3.org/TR/fetch-metadata/#sec-fetch-site-header: `none` is a user who typed the address.
        let sites = headers.get_all("sec-fetch-site").iter();
        let mut sites = sites.map(HeaderValue::as_bytes);
        if headers.contains_key(header::ORIGIN)
            || !sites.all(|site| matches!(site, b"none" | b"same-origin"))
        {
            return Err(Refusal::ORIGIN);
        }
        Ok(())
    }

    fn knows(&self, name: &HostName) -> bool {
        name.is_loopback() || self.names.contains(name)
    }

    /// Checks the key for the status page and the health check, which need one where other machines reach them.
    pub(super) fn authorize_status(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        match self.is_remote {
            true => self.authorize(headers),
            false => Ok(()),
        }
    }

    /// Checks the key, where there is one.
    pub(super) fn authorize(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(key) = &self.api_key else {
            return Ok(());
        };
        match given_key(headers).is_some_and(|given| given.ct_eq(key.as_bytes()).into()) {
            true => Ok(()),
            false => Err(Refusal::KEY),
        }
    }
}

/// RFC 9110 §11.4: a scheme in any case (§11.1), spaces, the credentials. RFC 6750 §2.1: the scheme is `Bearer`. Azure's clients
/// send the key alone in another field.
fn given_key(headers: &HeaderMap) -> Option<&[u8]> {
    let bearers = headers.get_all(header::AUTHORIZATION).iter();
    let bearers = bearers.map(|field| bearer_key(field.as_bytes()));
    let keys = headers.get_all("api-key").iter();
    let mut given = bearers.chain(keys.map(|field| Some(field.as_bytes())));
    match (given.next(), given.next()) {
        (Some(key), None) => key,
        _ => None,
    }
}

fn bearer_key(field: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = field.split_at_checked("bearer".len())?;
    let key = rest.trim_ascii_start();
    (scheme.eq_ignore_ascii_case(b"bearer") && key.len() < rest.len()).then_some(key)
}

/// A host as it is compared: an address, or a name in lower case without a dot at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostName {
    Address(IpAddr),
    Name(String),
}

impl HostName {
    fn is_loopback(&self) -> bool {
        match self {
            Self::Address(address) => address.is_loopback(),
            // RFC 6761 §6.3: names below `localhost` are this machine's, and no page can have one.
            Self::Name(name) => name == "localhost" || name.ends_with(".localhost"),
        }
    }

    /// The host of `host[:port]` (RFC 3986 §3.2.2); `None` for everything else.
    fn of_authority(text: &str) -> Option<Self> {
        let end = match text.strip_prefix('[') {
            Some(rest) => rest.find(']')? + 2,
            None => text.find(':').unwrap_or(text.len()),
        };
        let (host, port) = text.split_at_checked(end)?;
        // A number alone; `parse` would take a sign, too.
        let port = port.strip_prefix(':').or(port.is_empty().then_some(""))?;
        let is_port = port.is_empty() || port.parse::<u16>().is_ok();
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        host.parse().ok().filter(|_| is_port && is_number)
    }
}

impl FromStr for HostName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let inner = text
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'));
        if let Ok(address) = inner.unwrap_or(text).parse::<IpAddr>()
            && (inner.is_none() || address.is_ipv6())
        {
            return Ok(Self::Address(address.to_canonical()));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        let is_label = |label: &str| {
            !label.is_empty()
                && label
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        };
        match name.len() <= 253 && name.split('.').all(is_label) {
            true => match name.parse::<IpAddr>() {
                Ok(address) => Ok(Self::Address(address)),
                Err(_) => Ok(Self::Name(name.to_ascii_lowercase())),
            },
            false => Err(
                "not the name of a host: write it without scheme, port and path, such as host.docker.internal",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_loopback() {
        let is_local = |text| HostName::of_authority(text).is_some_and(|name| name.is_loopback());
        for good in [
            "localhost",
            "LOCALHOST:1",
            "localhost.",
            "localhost.:8788",
            "localhost:",
            "api.localhost",
            "a.b.LocalHost.:80",
            "127.0.0.1:8788",
            "127.0.0.1.",
            "127.3.2.1",
            "[::1]:8788",
            "[::1]",
            "[0:0:0:0:0:0:0:1]",
            "[::ffff:127.0.0.1]:8788",
            "[::FFFF:7f00:1]",
        ] {
            assert!(is_local(good), "{good}");
        }
        for bad in [
            "",
            ":8788",
            ".",
            "..localhost",
            "localhost..",
            ".localhost",
            "evil.example",
            "evil.example:8788",
            "evil.example.",
            "notlocalhost",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "0.0.0.0",
            "127.1",
            "2130706433",
            "0x7f.0.0.1",
            "[::2]",
            "[::]",
            "[::ffff:10.0.0.1]",
            "[::1",
            "::1",
            "[::1]x",
            "[::1]8788",
            "[127.0.0.1]",
            "[localhost]",
            "localhost:80:80",
            "localhost:+80",
            "localhost:65536",
            "localhost:x",
            "localhost:80@evil.example",
            "evil.example@localhost",
            "localhost/",
            "localhost evil.example",
            "localhost, evil.example",
            "localhost%2eevil.example",
        ] {
            assert!(!is_local(bad), "{bad}");
        }
    }

    #[test]
    fn names_to_allow_are_hosts_alone() {
        for (text, expected) in [
            ("host.docker.internal", "host.docker.internal"),
            ("Proxy_1.Example.", "proxy_1.example"),
        ] {
            assert_eq!(text.parse(), Ok(HostName::Name(expected.to_owned())));
        }
        for text in ["10.0.0.1", "[fd00::1]", "fd00::1", "::ffff:10.0.0.1"] {
            assert!(matches!(text.parse(), Ok(HostName::Address(_))), "{text}");
        }
        for text in [
            "",
            "*",
            "a:80",
            "http://a",
            "a/b",
            "[a]",
            "a b",
            "ä.example",
        ] {
            assert!(text.parse::<HostName>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_key_has_a_scheme_in_any_case() {
        let given = |fields: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for field in fields {
                headers.append(header::AUTHORIZATION, HeaderValue::from_static(field));
            }
            given_key(&headers).map(<[u8]>::to_vec)
        };
        for good in ["Bearer key", "bearer key", "BEARER key", "bEaReR   key"] {
            assert_eq!(given(&[good]).as_deref(), Some(&b"key"[..]), "{good}");
        }
        for bad in ["", "key", "Bearer", "Bearerkey", "Basic key", "Bearer, key"] {
            assert_eq!(given(&[bad]), None, "{bad}");
        }
        assert_eq!(given(&[]), None);
        assert_eq!(given(&["Bearer key", "Bearer key"]), None);
        let mut headers = HeaderMap::new();
        headers.insert("api-key", HeaderValue::from_static("key"));
        assert_eq!(given_key(&headers), Some(&b"key"[..]));
        headers.insert(
            header::AUTHORIZATION,
            HeaderValue::from_static("Bearer key"),
        );
        assert_eq!(given_key(&headers), None);
    }
}
