//! Where the enclave listens.

use std::path::PathBuf;
use std::str::FromStr;

/// One flag for four transports: `tcp:HOST:PORT`, `unix:/path`, `vsock:CID:PORT` or `hybrid:/path:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnclaveAddress {
    /// A host name or address, and a port.
    Tcp(String),
    /// A Unix domain socket.
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
        /// Its socket.
        path: PathBuf,
        /// The port that enclave-server listens on.
        port: u32,
    },
}

/// Why a text is no address of an enclave.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{0}` is no enclave address; write tcp:HOST:PORT, unix:/path/to/socket, vsock:CID:PORT or hybrid:/path/to/socket:PORT"
)]
pub struct InvalidAddress(String);

impl FromStr for EnclaveAddress {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        parse(text).ok_or_else(|| InvalidAddress(text.to_owned()))
    }
}

impl std::fmt::Display for EnclaveAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(authority) => write!(f, "tcp:{authority}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Vsock { cid, port } => write!(f, "vsock:{cid}:{port}"),
            Self::Hybrid { path, port } => write!(f, "hybrid:{}:{port}", path.display()),
        }
    }
}

fn parse(text: &str) -> Option<EnclaveAddress> {
    let (kind, rest) = text.split_once(':')?;
    match kind {
        "tcp" => {
            let (host, port) = rest.rsplit_once(':')?;
            (!host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0))
                .then(|| EnclaveAddress::Tcp(rest.to_owned()))
        }
        "unix" => (!rest.is_empty()).then(|| EnclaveAddress::Unix(PathBuf::from(rest))),
        "vsock" => {
            let (cid, port) = rest.split_once(':')?;
            Some(EnclaveAddress::Vsock {
                cid: cid.parse().ok()?,
                port: port.parse().ok()?,
            })
        }
        "hybrid" => {
            let (path, port) = rest.rsplit_once(':')?;
            let port = port.parse().ok()?;
            (!path.is_empty()).then(|| EnclaveAddress::Hybrid {
                path: PathBuf::from(path),
                port,
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_transport_is_read_and_written_alike() {
        for text in [
            "tcp:127.0.0.1:5005",
            "tcp:[::1]:5005",
            "unix:/run/a:b.sock",
            "vsock:16:5005",
            "hybrid:/run/vm:1.sock:5005",
        ] {
            assert_eq!(text.parse::<EnclaveAddress>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
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
        ] {
            assert!(text.parse::<EnclaveAddress>().is_err(), "{text}");
        }
    }
}
