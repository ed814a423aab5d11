//! Addresses: where a server listens, where an enclave reaches its parent, and where a proxy reaches an enclave.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// An address to listen on: `vsock:PORT`, `unix:PATH` or `tcp:IP:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// This port, on every context identifier.
    Vsock(u32),
    /// A socket file.
    Unix(PathBuf),
    /// An IP address and port.
    Tcp(SocketAddr),
}

/// Where an enclave reaches its parent instance: `vsock:CID:PORT`, `unix:PATH` or `tcp:IP:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParentAddress {
    /// A context identifier, 3 for the instance that an enclave runs on, and a port.
    Vsock {
        /// Context identifier.
        cid: u32,
        /// Port.
        port: u32,
    },
    /// A socket file.
    Unix(PathBuf),
    /// An IP address and port. An enclave has no name resolution.
    Tcp(SocketAddr),
}

/// Where a proxy reaches an enclave: `tcp:HOST:PORT`, `unix:PATH`, `vsock:CID:PORT` or `hybrid:PATH:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnclaveAddress {
    /// A host name or address, and a port.
    Tcp(String),
    /// A socket file.
    Unix(PathBuf),
    /// The context identifier that the hypervisor gave the enclave, and a port.
    Vsock {
        /// 16 or above for an enclave.
        cid: u32,
        /// The port that enclave-server listens on.
        port: u32,
    },
    /// A vsock that a virtual machine monitor offers as a Unix domain socket (Firecracker, `vhost-device-vsock`).
    Hybrid {
        /// The monitor's socket.
        path: PathBuf,
        /// The port that enclave-server listens on.
        port: u32,
    },
}

/// The text does not have a form that the address takes.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an address of this kind; write {forms}")]
pub struct InvalidAddress {
    text: String,
    forms: &'static str,
}

impl InvalidAddress {
    fn new(text: &str, forms: &'static str) -> Self {
        Self {
            text: text.to_owned(),
            forms,
        }
    }
}

impl ListenAddress {
    /// Parses an address that only this machine and its enclaves reach: a TCP address has to be a loopback one. For clap's
    /// `value_parser`.
    ///
    /// # Errors
    /// [`InvalidAddress`], which names the expected forms.
    pub fn parse_local(text: &str) -> Result<Self, InvalidAddress> {
        let local = text.parse().ok().filter(|address| match address {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Vsock(_) | Self::Unix(_) => true,
        });
        local.ok_or_else(|| {
            InvalidAddress::new(
                text,
                "vsock:PORT, unix:PATH or tcp:IP:PORT with a loopback address",
            )
        })
    }
}

impl FromStr for ListenAddress {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let parsed = text.split_once(':').and_then(|(kind, rest)| match kind {
            "vsock" => rest.parse().ok().map(Self::Vsock),
            "unix" => parse_path(rest).map(Self::Unix),
            "tcp" => rest.parse().ok().map(Self::Tcp),
            _ => None,
        });
        parsed.ok_or_else(|| InvalidAddress::new(text, "vsock:PORT, unix:PATH or tcp:IP:PORT"))
    }
}

impl FromStr for ParentAddress {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let parsed = text.split_once(':').and_then(|(kind, rest)| match kind {
            "vsock" => parse_vsock(rest).map(|(cid, port)| Self::Vsock { cid, port }),
            "unix" => parse_path(rest).map(Self::Unix),
            "tcp" => rest.parse().ok().map(Self::Tcp),
            _ => None,
        });
        parsed.ok_or_else(|| InvalidAddress::new(text, "vsock:CID:PORT, unix:PATH or tcp:IP:PORT"))
    }
}

impl FromStr for EnclaveAddress {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let parsed = text.split_once(':').and_then(|(kind, rest)| match kind {
            "tcp" => {
                let (host, port) = rest.rsplit_once(':')?;
                (!host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0))
                    .then(|| Self::Tcp(rest.to_owned()))
            }
            "unix" => parse_path(rest).map(Self::Unix),
            "vsock" => parse_vsock(rest).map(|(cid, port)| Self::Vsock { cid, port }),
            "hybrid" => {
                let (path, port) = rest.rsplit_once(':')?;
                Some(Self::Hybrid {
                    path: parse_path(path)?,
                    port: port.parse().ok()?,
                })
            }
            _ => None,
        });
        parsed.ok_or_else(|| {
            InvalidAddress::new(
                text,
                "tcp:HOST:PORT, unix:PATH, vsock:CID:PORT or hybrid:PATH:PORT",
            )
        })
    }
}

fn parse_path(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| text.into())
}

/// `CID:PORT`.
fn parse_vsock(text: &str) -> Option<(u32, u32)> {
    let (cid, port) = text.split_once(':')?;
    Some((cid.parse().ok()?, port.parse().ok()?))
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vsock(port) => write!(f, "vsock:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

impl fmt::Display for ParentAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vsock { cid, port } => write!(f, "vsock:{cid}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

impl fmt::Display for EnclaveAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(authority) => write!(f, "tcp:{authority}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Vsock { cid, port } => write!(f, "vsock:{cid}:{port}"),
            Self::Hybrid { path, port } => write!(f, "hybrid:{}:{port}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<A: FromStr<Err = InvalidAddress> + fmt::Display>(texts: &[&str]) {
        for text in texts {
            assert_eq!(text.parse::<A>().unwrap().to_string(), *text);
        }
    }

    fn refuse<A: FromStr<Err = InvalidAddress>>(texts: &[&str]) {
        for text in texts {
            let error = text.parse::<A>().err().unwrap_or_else(|| panic!("{text}"));
            assert!(error.to_string().contains("; write "), "{error}");
        }
    }

    #[test]
    fn addresses_to_listen_on_round_trip() {
        round_trip::<ListenAddress>(&[
            "vsock:5005",
            "unix:/run/a:b.sock",
            "tcp:127.0.0.1:5005",
            "tcp:[::1]:80",
        ]);
        refuse::<ListenAddress>(&[
            "",
            "5005",
            "tcp:localhost:1",
            "vsock:",
            "vsock:-1",
            "vsock:3:5",
            "unix:",
            "http://x",
        ]);
    }

    #[test]
    fn a_local_address_is_not_reached_by_other_machines() {
        for text in [
            "vsock:5006",
            "unix:/run/a:b.sock",
            "tcp:127.0.0.1:5006",
            "tcp:[::1]:0",
        ] {
            let address = ListenAddress::parse_local(text).unwrap();
            assert_eq!(address.to_string(), text);
        }
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
            assert!(ListenAddress::parse_local(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_of_a_parent_round_trip() {
        round_trip::<ParentAddress>(&[
            "vsock:3:5006",
            "unix:/run/x:y.sock",
            "tcp:127.0.0.1:5006",
            "tcp:[::1]:80",
        ]);
        refuse::<ParentAddress>(&[
            "",
            "vsock:5006",
            "vsock:3:",
            "unix:",
            "tcp:localhost:1",
            "http://x",
        ]);
    }

    #[test]
    fn addresses_of_an_enclave_round_trip() {
        round_trip::<EnclaveAddress>(&[
            "tcp:127.0.0.1:5005",
            "tcp:[::1]:5005",
            "unix:/run/a:b.sock",
            "vsock:16:5005",
            "hybrid:/run/vm:1.sock:5005",
        ]);
        refuse::<EnclaveAddress>(&[
            "",
            "tcp",
            "tcp:",
            "tcp:host",
            "tcp::1",
            "tcp:h:0",
            "tcp:h:65536",
            "unix:",
            "vsock:5005",
            "vsock:-1:5",
            "hybrid:/run/vm.sock",
            "hybrid::5005",
            "hybrid:/run/vm.sock:-1",
            "http://h:1",
        ]);
    }
}
