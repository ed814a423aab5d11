//! Where the parent listens for this enclave.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// `vsock:CID:PORT`, `unix:PATH` or `tcp:IP:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParentAddress {
    /// The parent's context identifier, 3 for the instance that an enclave runs on, and a port.
    Vsock {
        /// Context identifier.
        cid: u32,
        /// Port.
        port: u32,
    },
    /// A socket file.
    Unix(PathBuf),
    /// An IP address and port.
    Tcp(SocketAddr),
}

impl FromStr for ParentAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once(':').and_then(|(kind, rest)| match kind {
            "vsock" => {
                let (cid, port) = rest.split_once(':')?;
                Some(Self::Vsock {
                    cid: cid.parse().ok()?,
                    port: port.parse().ok()?,
                })
            }
            "unix" if !rest.is_empty() => Some(Self::Unix(rest.into())),
            "tcp" => rest.parse().ok().map(Self::Tcp),
            _ => None,
        });
        parsed.ok_or_else(|| "expected vsock:CID:PORT, unix:PATH or tcp:IP:PORT".to_owned())
    }
}

impl std::fmt::Display for ParentAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Vsock { cid, port } => write!(f, "vsock:{cid}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip() {
        for text in [
            "vsock:3:5006",
            "unix:/run/x:y.sock",
            "tcp:127.0.0.1:5006",
            "tcp:[::1]:80",
        ] {
            assert_eq!(text.parse::<ParentAddress>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "vsock:5006",
            "vsock:3:",
            "unix:",
            "tcp:localhost:1",
            "http://x",
        ] {
            assert!(text.parse::<ParentAddress>().is_err(), "{text}");
        }
    }
}
