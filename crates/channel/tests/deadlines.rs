//! Timeouts, and the moment at which evidence is appraised. The clock is paused.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used)]

use crate::common;
use std::time::Duration;

use channel::{Channel, Error, connect, connect_known};
use protocol::channel::frame::{HEADER, Kind, MAX_PAYLOAD};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use crate::common::{DEADLINE, Enclave, NOW, rng};

const TIMEOUT: Duration = Duration::from_secs(30);

/// Opens a channel. Returns the server's end, then the client's.
async fn open(enclave: &Enclave) -> (Channel<DuplexStream>, Channel<DuplexStream>) {
    let (near, far) = duplex(4 << 20);
    let (mut verifier, mut rng) = (enclave.verifier(), rng(5));
    let (server, client) = tokio::join!(
        enclave.accept(far, 11),
        connect(near, &mut verifier, NOW, DEADLINE, &mut rng)
    );
    let (mut server, client) = (server.unwrap(), client.unwrap());
    server.incoming.set_timeout(Some(TIMEOUT));
    (server, client)
}

#[tokio::test(start_paused = true)]
async fn bytes_that_trickle_do_not_keep_a_channel_open() {
    let (server, client) = open(&Enclave::start(1)).await;
    let mut incoming = server.incoming;
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&1_048_576_u32.to_be_bytes());
    header[4] = Kind::Data as u8;
    let (_held, mut relay) = common::write_raw(client, &header).await;
    let trickle = async {
        for _ in 0..1_000 {
            tokio::time::sleep(Duration::from_secs(29)).await;
            if relay.write_all(b"x").await.is_err() {
                return;
            }
        }
        panic!("a peer that trickles kept the channel open for hours");
    };
    let outcome = tokio::select! {
        outcome = incoming.receive() => outcome.map(|_| ()),
        () = trickle => Ok(()),
    };
    assert!(matches!(outcome, Err(Error::Silent)), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn a_slow_network_has_time_for_a_large_frame() {
    let enclave = Enclave::start(1);
    let (near, mut relay_near) = duplex(64 * 1024);
    let (mut relay_far, far) = duplex(4 << 20);
    let (mut verifier, mut seed) = (enclave.verifier(), rng(5));
    // Some 10 kB a second towards the client, so that a mebibyte takes three times the timeout.
    tokio::spawn(async move {
        let (mut from_client, mut to_client) = tokio::io::split(&mut relay_near);
        let (mut from_server, mut to_server) = tokio::io::split(&mut relay_far);
        let up = tokio::io::copy(&mut from_client, &mut to_server);
        let down = async {
            let mut piece = [0; 1_024];
            while let Ok(count @ 1..) = from_server.read(&mut piece).await {
                to_client.write_all(&piece[..count]).await.unwrap();
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::join!(up, down)
    });
    let (server, client) = tokio::join!(
        enclave.accept(far, 11),
        connect(near, &mut verifier, NOW, DEADLINE, &mut seed)
    );
    let (mut server, mut client) = (server.unwrap(), client.unwrap());
    client.incoming.set_timeout(Some(TIMEOUT));
    let sent = server.outgoing.send(Kind::Data, &[7; MAX_PAYLOAD]);
    let (sent, message) = tokio::join!(sent, client.incoming.receive());
    sent.unwrap();
    assert_eq!(message.unwrap().unwrap().payload.len(), MAX_PAYLOAD);
}

#[tokio::test(start_paused = true)]
async fn heartbeats_keep_a_channel_open() {
    let (mut server, mut client) = open(&Enclave::start(1)).await;
    let work = async {
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_secs(20)).await;
            client.outgoing.send(Kind::Heartbeat, b"").await.unwrap();
        }
        client.outgoing.send(Kind::Data, b"done").await.unwrap();
    };
    let ((), message) = tokio::join!(work, server.incoming.receive());
    assert_eq!(message.unwrap().unwrap().payload, b"done");
}

#[tokio::test(start_paused = true)]
async fn evidence_is_appraised_when_it_arrives() {
    const DELAY: Duration = Duration::from_secs(5);
    let enclave = Enclave::start(1);
    let (near, far) = duplex(64 * 1024);
    let (mut verifier, mut seed) = (enclave.verifier(), rng(5));
    let (_, client) = tokio::join!(
        enclave.accept_after(far, 11, DELAY),
        connect(near, &mut verifier, NOW, DEADLINE, &mut seed)
    );
    client.unwrap();
    let known = verifier.known().unwrap();
    // The two clocks agree: the document was made 5 seconds after the client's hello, and arrived then.
    assert_eq!(known.clock_offset().to_enclave(NOW), NOW);

    // Valid when the client begins, and expired when the endorsement arrives.
    let begun = known.valid_until().0 - 2_000;
    let (near, far) = duplex(64 * 1024);
    let mut seed = rng(6);
    let (_, late) = tokio::join!(
        async { enclave.accept_after(far, 12, DELAY).await.map(|_| ()) },
        connect_known(
            near,
            known,
            attestation::UnixMillis(begun),
            DEADLINE,
            &mut seed
        )
    );
    assert_eq!(
        late.err().as_ref().map(Error::code),
        Some("ENDORSEMENT_EXPIRED")
    );
}

#[tokio::test]
async fn a_refused_payload_leaves_the_channel_usable() {
    let (mut server, mut client) = open(&Enclave::start(1)).await;
    for length in [300, 20_000] {
        let error = client.outgoing.send(Kind::Error, &vec![0; length]).await;
        assert_eq!(error.unwrap_err().code(), "CHANNEL_TOO_LARGE");
    }
    client.outgoing.send(Kind::Data, b"after it").await.unwrap();
    client.outgoing.close().await.unwrap();
    let message = server.incoming.receive().await.unwrap().unwrap();
    assert_eq!(message.payload, b"after it");
    assert!(server.incoming.receive().await.unwrap().is_none());
}
