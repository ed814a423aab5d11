//! Where the enclave reaches its parent.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// `vsock:PORT`, `unix:/path` or `tcp:IP:PORT` with a loopback address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParentAddress {
    /// Every context identifier, this port.
    Vsock(u32),
    /// A socket file.
    Unix(PathBuf),
    /// A loopback address: what is offered here is for the enclave alone.
    Tcp(SocketAddr),
}

/// Why a text is no address for the enclave.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{0}` is no address for the enclave; write vsock:PORT, unix:/path/to/socket or tcp:IP:PORT with a loopback address"
)]
pub struct InvalidParentAddress(String);

impl FromStr for ParentAddress {
    type Err = InvalidParentAddress;

    fn from_str(text: &str) -> Result<Self, InvalidParentAddress> {
        parse(text).ok_or_else(|| InvalidParentAddress(text.to_owned()))
    }
}

impl std::fmt::Display for ParentAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Vsock(port) => write!(f, "vsock:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

fn parse(text: &str) -> Option<ParentAddress> {
    let (kind, rest) = text.split_once(':')?;
    match kind {
        "vsock" => rest.parse().ok().map(ParentAddress::Vsock),
        "unix" => (!rest.is_empty()).then(|| ParentAddress::Unix(rest.into())),
        "tcp" => rest
            .parse::<SocketAddr>()
            .ok()
            .filter(|address| address.ip().is_loopback())
            .map(ParentAddress::Tcp),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_transport_is_read_and_written_alike() {
        for text in [
            "vsock:5006",
            "unix:/run/a:b.sock",
            "tcp:127.0.0.1:5006",
            "tcp:[::1]:0",
        ] {
            assert_eq!(text.parse::<ParentAddress>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_others_could_reach_is_refused() {
        for text in [
            "",
            "vsock:",
            "vsock:3:5",
            "unix:",
            "tcp:h:1",
            "tcp:0.0.0.0:1",
            "tcp:192.0.2.1:1",
            "tcp:[::]:1",
        ] {
            assert!(text.parse::<ParentAddress>().is_err(), "{text}");
        }
    }
}
