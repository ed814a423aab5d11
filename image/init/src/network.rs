//! Sets up the loopback interface, the only network, with one rtnetlink message (rtnetlink(7)): it sets the flag "up" of
//! interface 1.

use std::io;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, recv, sendto, socket};

/// Sets the loopback interface up.
pub(crate) fn loopback() -> io::Result<()> {
    let socket = socket(AddressFamily::NETLINK, SocketType::RAW, ROUTE)?;
    sendto(
        &socket,
        &request(),
        SendFlags::empty(),
        &SocketAddrNetlink::new(0, 0),
    )?;
    let mut answer = [0; 64];
    let (length, _) = recv(&socket, &mut answer, RecvFlags::empty())?;
    read(answer.get(..length).unwrap_or_default())
}

/// NETLINK_ROUTE, the protocol 0.
const ROUTE: Option<rustix::net::Protocol> = None;
const HEADER: usize = 16;
const NEW_LINK: u16 = 16;
const ERROR: u16 = 2;
/// NLM_F_REQUEST and NLM_F_ACK.
const REQUEST_WITH_ANSWER: u16 = 1 | 4;
const LOOPBACK: i32 = 1;
const UP: u32 = 1;

fn request() -> Vec<u8> {
    let mut message = Vec::with_capacity(HEADER + 16);
    message.extend_from_slice(&(HEADER as u32 + 16).to_ne_bytes());
    message.extend_from_slice(&NEW_LINK.to_ne_bytes());
    message.extend_from_slice(&REQUEST_WITH_ANSWER.to_ne_bytes());
    // Sequence number and port of the sender.
    message.extend_from_slice(&[0; 8]);
    // struct ifinfomsg: family and type unspecified, index, flags, which flags change.
    message.extend_from_slice(&[0; 4]);
    message.extend_from_slice(&LOOPBACK.to_ne_bytes());
    message.extend_from_slice(&UP.to_ne_bytes());
    message.extend_from_slice(&UP.to_ne_bytes());
    message
}

/// NLMSG_ERROR with the number 0 is the kernel's acknowledgement.
fn read(answer: &[u8]) -> io::Result<()> {
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok());
    let number = answer
        .get(HEADER..HEADER + 4)
        .and_then(|bytes| bytes.try_into().ok());
    match (kind.map(u16::from_ne_bytes), number.map(i32::from_ne_bytes)) {
        (Some(ERROR), Some(0)) => Ok(()),
        (Some(ERROR), Some(number)) => Err(io::Error::from_raw_os_error(number.saturating_neg())),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart() {
        let answer = |kind: u16, number: i32| {
            let mut message = vec![0; HEADER];
            message[4..6].copy_from_slice(&kind.to_ne_bytes());
            message.extend_from_slice(&number.to_ne_bytes());
            message
        };
        assert!(read(&answer(ERROR, 0)).is_ok());
        assert_eq!(
            read(&answer(ERROR, -1))
                .err()
                .and_then(|error| error.raw_os_error()),
            Some(1)
        );
        assert!(read(&answer(3, 0)).is_err());
        assert!(read(&[]).is_err());
        assert!(read(&[0; 17]).is_err());
    }

    #[test]
    fn the_request_says_its_length() {
        assert_eq!(request().len(), 32);
        assert_eq!(request()[..4], 32_u32.to_ne_bytes());
    }
}
