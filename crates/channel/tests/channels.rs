//! Channels over real streams, and over hostile relays.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used)]

use crate::common;
use std::time::Duration;

use channel::{Error, Verifier, connect_known};
use protocol::channel::frame::{Kind, MAX_MESSAGE, MAX_PAYLOAD};
use protocol::channel::tensor::{Tensor, append_floats};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, duplex};

use crate::common::{DEADLINE, Enclave, NOW, client, echo, rng};

async fn round_trips<S: AsyncRead + AsyncWrite>(stream: S, verifier: &mut Verifier) {
    let mut channel = client(stream, verifier, 2).await.unwrap();
    for length in [
        0,
        1,
        16,
        1_536,
        4_096,
        65_537,
        MAX_PAYLOAD,
        MAX_PAYLOAD + 1,
        3 << 20,
    ] {
        let payload: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let mut scratch = payload.clone();
        let sent = channel.outgoing.send_in_place(Kind::Data, &mut scratch);
        let received = async {
            let message = channel.incoming.receive().await.unwrap().unwrap();
            assert_eq!(message.kind, Kind::Data);
            assert!(message.payload == payload, "{length} bytes");
        };
        let (sent, ()) = tokio::join!(sent, received);
        sent.unwrap();
    }
    let elements: Vec<f32> = (0..768).map(|at| at as f32).collect();
    for odd in [&b"x"[..], b"odd length"] {
        channel.outgoing.send(Kind::Data, odd).await.unwrap();
        let mut tensor = Vec::new();
        append_floats(&[2, 384], "v", &elements, &mut tensor).unwrap();
        channel.outgoing.send(Kind::Tensor, &tensor).await.unwrap();
        assert_eq!(
            channel.incoming.receive().await.unwrap().unwrap().payload,
            odd
        );
        let message = channel.incoming.receive().await.unwrap().unwrap();
        // Borrowed: aligned although an odd frame came before it.
        assert_eq!(
            Tensor::parse(message.payload).unwrap().floats().unwrap(),
            elements
        );
    }
    channel.outgoing.close().await.unwrap();
    assert!(channel.incoming.receive().await.unwrap().is_none());
}

#[tokio::test]
async fn every_stream_carries_a_channel() {
    let enclave = Enclave::start(1);
    let mut verifier = enclave.verifier();
    let (near, far) = duplex(64 * 1024);
    let (served, ()) = tokio::join!(echo(far, &enclave, 10), round_trips(near, &mut verifier));
    served.unwrap();

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = async { echo(listener.accept().await.unwrap().0, &enclave, 11).await };
    let client = async {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        round_trips(stream, &mut verifier).await;
    };
    tokio::join!(server, client).0.unwrap();

    let (near, far) = tokio::net::UnixStream::pair().unwrap();
    let (served, ()) = tokio::join!(echo(far, &enclave, 12), round_trips(near, &mut verifier));
    served.unwrap();
    assert_eq!(enclave.documents(), 1, "the second and third were endorsed");
}

#[tokio::test]
async fn only_the_known_enclave_is_accepted() {
    let (enclave, other) = (Enclave::start(1), Enclave::start(2));
    let mut verifier = enclave.verifier();
    let (near, far) = duplex(64 * 1024);
    let (served, verified) = tokio::join!(enclave.accept(far, 10), client(near, &mut verifier, 3));
    assert!(served.is_ok() && verified.is_ok());
    drop((served, verified));
    let known = verifier.known().unwrap();
    for (server, code) in [(&enclave, None), (&other, Some("CHANNEL_STALE"))] {
        let (near, far) = duplex(64 * 1024);
        let mut seed = rng(4);
        let (_, channel) = tokio::join!(
            async { server.accept(far, 11).await.map(|_| ()) },
            connect_known(near, known, NOW, DEADLINE, &mut seed)
        );
        let error = channel.err();
        assert_eq!(error.as_ref().map(Error::code), code);
        assert!(!error.is_some_and(|error| error.is_transient()));
    }
}

#[tokio::test]
async fn a_smaller_limit_is_checked_before_memory_is_allocated() {
    let enclave = Enclave::start(1);
    let mut verifier = enclave.verifier();
    let (near, far) = duplex(1 << 20);
    let (server, client) = tokio::join!(enclave.accept(far, 10), client(near, &mut verifier, 5));
    let (mut server, mut client) = (server.unwrap(), client.unwrap());
    server.incoming.set_limit(1_000);
    client.outgoing.send(Kind::Data, &[0; 1_000]).await.unwrap();
    let message = server.incoming.receive().await.unwrap().unwrap();
    assert_eq!(message.payload.len(), 1_000);
    client.outgoing.send(Kind::Data, &[0; 1_001]).await.unwrap();
    let error = server.incoming.receive().await.unwrap_err();
    assert_eq!(error.code(), "CHANNEL_TOO_LARGE");
}

#[tokio::test]
async fn one_byte_at_a_time_is_enough() {
    let enclave = Enclave::start(1);
    let mut verifier = enclave.verifier();
    let (near, far) = duplex(1);
    let work = async {
        let mut channel = client(near, &mut verifier, 3).await.unwrap();
        channel.outgoing.send(Kind::Data, b"slowly").await.unwrap();
        let message = channel.incoming.receive().await.unwrap().unwrap();
        assert_eq!(message.payload, b"slowly");
        channel.outgoing.close().await.unwrap();
        assert!(channel.incoming.receive().await.unwrap().is_none());
    };
    tokio::join!(echo(far, &enclave, 10), work).0.unwrap();
}

/// The peer is silent in each state. The clock is paused.
#[tokio::test(start_paused = true)]
async fn a_silent_peer_ends_the_channel() {
    let enclave = Enclave::start(1);
    let mut verifier = enclave.verifier();
    // The server never answers; the client sends nothing; the client stops after its hello.
    let (near, _far) = duplex(4_096);
    assert!(matches!(
        client(near, &mut verifier, 4).await,
        Err(Error::Silent)
    ));
    let (_near, far) = duplex(4_096);
    assert!(matches!(enclave.accept(far, 10).await, Err(Error::Silent)));
    let (mut near, far) = duplex(64 * 1024);
    let (hello, _) = protocol::channel::begin(Default::default(), &mut rng(4)).unwrap();
    let hello = protocol::channel::frame::Step::ClientHello.frame(&hello);
    near.write_all(&hello).await.unwrap();
    assert!(matches!(enclave.accept(far, 10).await, Err(Error::Silent)));
    // Within a session, and within a frame.
    for begun in [0, 5, 20] {
        let (near, far) = duplex(64 * 1024);
        let (server, client) =
            tokio::join!(enclave.accept(far, 11), client(near, &mut verifier, 5));
        let (mut server, client) = (server.unwrap(), client.unwrap());
        server.incoming.set_timeout(Some(Duration::from_secs(30)));
        let mut frame = [0; 20];
        frame[3] = 40;
        frame[4] = Kind::Data as u8;
        let _held = common::write_raw(client, &frame[..begun]).await;
        assert!(
            matches!(server.incoming.receive().await, Err(Error::Silent)),
            "{begun}"
        );
    }
}

#[tokio::test]
async fn a_cut_connection_is_not_a_shutdown() {
    let enclave = Enclave::start(1);
    let mut verifier = enclave.verifier();
    let (near, far) = duplex(64 * 1024);
    let (server, client) = tokio::join!(enclave.accept(far, 10), client(near, &mut verifier, 5));
    let mut server = server.unwrap();
    drop(client.unwrap());
    let error = server.incoming.receive().await.unwrap_err();
    assert_eq!(error.code(), "CHANNEL_CUT_OFF");
    assert!(error.is_transient());
}

#[tokio::test]
async fn a_message_of_many_frames_has_a_limit() {
    let enclave = Enclave::start(1);
    let mut verifier = enclave.verifier();
    let (near, far) = duplex(1 << 20);
    let (server, client) = tokio::join!(enclave.accept(far, 10), client(near, &mut verifier, 5));
    let (mut server, mut client) = (server.unwrap(), client.unwrap());
    let mut payload = vec![0; MAX_MESSAGE + 1];
    let (received, _) = tokio::join!(
        async {
            let error = server.incoming.receive().await.unwrap_err();
            drop(server);
            error
        },
        client.outgoing.send_in_place(Kind::Data, &mut payload)
    );
    assert_eq!(received.code(), "CHANNEL_TOO_LARGE");
}
