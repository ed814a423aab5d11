//! Many texts through client, relay and enclave over sockets, with a hostile network between them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use attestation::UnixMillis;
use clap::Parser as _;
use clearseal_client::{Batch, Client, Clock, Error, Host, Part, Policy, Problem};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::channel::Listening;
use crate::common::Options;

const ITEMS: usize = 20_000;
const BATCH: usize = 32;

/// Starts enclave and host-proxy; returns the address of the latter.
pub(crate) async fn stack(options: Options) -> (Listening, SocketAddr) {
    let enclave = Listening::start(options).await;
    let config = host_proxy::Config::try_parse_from([
        "host-proxy",
        "--listen=127.0.0.1:0",
        "--source-share=100",
        &format!("--enclave=tcp:{}", enclave.address),
    ]);
    let proxy = host_proxy::Proxy::bind(config.unwrap()).await.unwrap();
    let address = proxy.local_address().unwrap();
    tokio::spawn(proxy.run(std::future::pending()));
    (enclave, address)
}

/// A network between client and proxy. `handle` gets each connection, with its number among those that become channels.
async fn network<F>(
    to: SocketAddr,
    handle: impl Fn(TcpStream, TcpStream, usize) -> F + Copy + Send + 'static,
) -> (SocketAddr, Arc<AtomicUsize>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let channels = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&channels);
    tokio::spawn(async move {
        loop {
            let (mut near, _) = listener.accept().await.unwrap();
            let count_of = Arc::clone(&count);
            tokio::spawn(async move {
                let mut far = TcpStream::connect(to).await.unwrap();
                // A client asks for evidence over the connection that becomes a channel.
                let (mut up, mut down) = (vec![0; 1 << 16], vec![0; 1 << 16]);
                loop {
                    let moved = tokio::select! {
                        read = near.read(&mut up) => match read {
                            Ok(count @ 1..) => {
                                far.write_all(&up[..count]).await.unwrap();
                                if up.starts_with(b"GET /v1/channel") {
                                    let number = count_of.fetch_add(1, Ordering::SeqCst);
                                    return handle(near, far, number).await;
                                }
                                true
                            }
                            _ => false,
                        },
                        read = far.read(&mut down) => match read {
                            Ok(count @ 1..) => near.write_all(&down[..count]).await.is_ok(),
                            _ => false,
                        },
                    };
                    if !moved {
                        return;
                    }
                }
            });
        }
    });
    (address, channels)
}

pub(crate) fn client(enclave: &Listening, host: SocketAddr) -> Client {
    let time = Arc::clone(&enclave.rig.time);
    let client = Client::builder(format!("http://{host}"))
        .accept_simulated(true)
        .clock(Clock::new(move || time.client()));
    client.build().unwrap()
}

/// Embeds `count` items; returns the tags of the answers in the order of arrival.
async fn embed(
    enclave: &Listening,
    host: SocketAddr,
    items: usize,
) -> (Result<u64, Error>, Vec<usize>) {
    let client = client(enclave, host);
    let (send, mut receive) = mpsc::channel(4);
    tokio::spawn(async move {
        for start in (0..items).step_by(BATCH) {
            let tag: Vec<_> = (start..items.min(start + BATCH)).collect();
            // As many letters as the toy model reads, so that neighbouring texts differ.
            let texts = tag.iter().map(|number| "x".repeat(1 + number % 13));
            let batch = Batch {
                texts: texts.collect(),
                tag,
            };
            if send.send(batch).await.is_err() {
                break;
            }
        }
    });
    let mut seen = Vec::new();
    let outcome = client
        .bulk(&mut receive, |batch, part| {
            let embedded = part.outcome?;
            assert_eq!(embedded.items.len(), batch.texts.len());
            for (item, text) in embedded.items.iter().zip(&batch.texts) {
                assert_eq!(item.tokens, text.len() as u64 + 2, "another text's vector");
                assert_eq!(item.vector.len(), 4);
            }
            assert!(embedded.answer.receipt().is_some());
            seen.extend_from_slice(&batch.tag);
            Ok(())
        })
        .await;
    (outcome, seen)
}

async fn pass(mut near: TcpStream, mut far: TcpStream, _: usize) {
    tokio::io::copy_bidirectional(&mut near, &mut far)
        .await
        .ok();
}

/// Cuts the connection after some bytes from the host, each time at another place: in the handshake, in frames, between them.
async fn cut(near: TcpStream, far: TcpStream, number: usize) {
    let limit = 200 + (number * 7_919) % 40_000;
    let (mut near_read, mut near_write) = near.into_split();
    let (far_read, mut far_write) = far.into_split();
    let up = copy(&mut near_read, &mut far_write);
    let mut limited = far_read.take(limit as u64);
    let down = copy(&mut limited, &mut near_write);
    tokio::select! { _ = up => (), _ = down => () }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_cut_repeatedly_loses_and_repeats_nothing() {
    let (enclave, proxy) = stack(Options::default()).await;
    let (network, channels) = network(proxy, cut).await;
    let (outcome, seen) = embed(&enclave, network, ITEMS).await;
    assert_eq!(outcome.unwrap(), ITEMS.div_ceil(BATCH) as u64);
    assert!(seen.into_iter().eq(0..ITEMS), "out of order");
    let channels = channels.load(Ordering::SeqCst);
    assert!(channels > 20, "{channels} channels: nothing was cut");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_no_channel_takes_is_sent_in_parts() {
    let (enclave, proxy) = stack(Options::default()).await;
    let (network, channels) = network(proxy, pass).await;
    let texts = vec!["x".repeat(60 << 10); 10];
    let (outcomes, batches) = outcomes(&client(&enclave, network), vec![texts]).await;
    assert_eq!(batches.unwrap(), 1);
    assert!(outcomes.iter().all(|(_, code)| code.is_none()));
    assert!(outcomes.into_iter().map(|(at, _)| at).eq(0..10));
    assert_eq!(channels.load(Ordering::SeqCst), 1);
}

/// Embeds these batches. The place of each text among all of them, in the order in which they were handed out, and the code of the
/// refusal of those that have no vector.
async fn outcomes(
    client: &Client,
    batches: Vec<Vec<String>>,
) -> (Vec<(usize, Option<String>)>, Result<u64, Error>) {
    let (send, mut receive) = mpsc::channel(batches.len());
    let mut first = 0;
    for texts in batches {
        let tag = first;
        first += texts.len();
        send.try_send(Batch { texts, tag }).ok().unwrap();
    }
    drop(send);
    let mut seen = Vec::new();
    let take = |batch: &Batch<usize>, part: Part| {
        if let Ok(embedded) = &part.outcome {
            assert_eq!(embedded.items.len(), part.texts.len());
            for (item, text) in embedded.items.iter().zip(&batch.texts[part.texts.clone()]) {
                // The toy reads the letters of a short word, and a long one as one that it does not know.
                let read = if text.len() < 14 { text.len() } else { 1 };
                assert_eq!(item.tokens, read as u64 + 2, "another text's vector");
            }
        }
        let code = part.outcome.err().map(|error| error.code().to_owned());
        seen.extend(part.texts.map(|at| (batch.tag + at, code.clone())));
        Ok(())
    };
    let outcome = client.bulk(&mut receive, take).await;
    (seen, outcome)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_that_is_refused_fails_alone_and_in_its_place() {
    let (enclave, proxy) = stack(Options::default()).await;
    let (network, _) = network(proxy, cut).await;
    let [empty, long, longest] =
        ["", &"x".repeat(70_000), &"x".repeat(600 << 10)].map(str::to_owned);
    let bad = [
        (0, &empty, "INPUT_EMPTY"),
        (1, &longest, "TEXT_TOO_LONG"),
        (77, &long, "TEXT_TOO_LONG"),
        (78, &empty, "INPUT_EMPTY"),
        (399, &long, "TEXT_TOO_LONG"),
    ];
    let texts = (0..400).map(|at| match bad.iter().find(|(bad, ..)| *bad == at) {
        Some((_, text, _)) => (*text).clone(),
        None => "x".repeat(1 + at % 13),
    });
    let batches: Vec<_> = texts
        .collect::<Vec<_>>()
        .chunks(BATCH)
        .map(<[_]>::to_vec)
        .collect();
    let count = batches.len() as u64;
    let (outcomes, answered) = outcomes(&client(&enclave, network), batches).await;
    assert_eq!(answered.unwrap(), count);
    let expected = (0..400).map(|at| {
        let bad = bad.iter().find(|(bad, ..)| *bad == at);
        (at, bad.map(|(_, _, code)| (*code).to_owned()))
    });
    assert_eq!(outcomes, expected.collect::<Vec<_>>());
}

/// Reads one frame of the host.
async fn frame(from: &mut OwnedReadHalf) -> std::io::Result<Vec<u8>> {
    let mut header = [0; 16];
    from.read_exact(&mut header).await?;
    let length = u32::from_be_bytes(header[..4].try_into().unwrap());
    let mut frame = header.to_vec();
    frame.resize(16 + length as usize, 0);
    from.read_exact(&mut frame[16..]).await?;
    Ok(frame)
}

/// Attack of the network on the host's fourth frame, after its hello and two answers.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Flip,
    Drop,
    Replay,
    Swap,
    Shorten,
    Disguise,
}

async fn harm(near: TcpStream, far: TcpStream, harm: Harm) -> std::io::Result<()> {
    let (mut near_read, mut near_write) = near.into_split();
    let (mut far_read, mut far_write) = far.into_split();
    let up = copy(&mut near_read, &mut far_write);
    let down = async {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(far_read.read_u8().await?);
        }
        near_write.write_all(&head).await?;
        let mut earlier = Vec::new();
        for number in 1.. {
            let mut bytes = frame(&mut far_read).await?;
            if number == 4 {
                match harm {
                    Harm::Flip => bytes[40] ^= 1,
                    Harm::Drop => continue,
                    Harm::Replay => bytes.clone_from(&earlier),
                    Harm::Swap => bytes = [frame(&mut far_read).await?, bytes].concat(),
                    Harm::Shorten => {
                        let length = u32::from_be_bytes(bytes[..4].try_into().unwrap()) - 8;
                        bytes[..4].copy_from_slice(&length.to_be_bytes());
                    }
                    Harm::Disguise => bytes[4] = 6,
                }
            }
            near_write.write_all(&bytes).await?;
            earlier = bytes;
        }
        Ok(0)
    };
    tokio::select! { ended = up => ended, ended = down => ended }.map(|_| ())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_frame_ends_the_run_without_a_retry() {
    let (enclave, proxy) = stack(Options::default()).await;
    for (kind, code) in [
        (Harm::Flip, "CHANNEL_FORGED"),
        (Harm::Drop, "CHANNEL_SEQUENCE"),
        (Harm::Replay, "CHANNEL_SEQUENCE"),
        (Harm::Swap, "CHANNEL_SEQUENCE"),
        (Harm::Shorten, "CHANNEL_FORGED"),
        (Harm::Disguise, "CHANNEL_FORGED"),
    ] {
        let handle = move |near, far, _| async move { drop(harm(near, far, kind).await) };
        let (network, channels) = network(proxy, handle).await;
        let (outcome, seen) = embed(&enclave, network, 40 * BATCH).await;
        let error = outcome.unwrap_err();
        assert_eq!(error.code(), code, "{kind:?}: {error:?}");
        assert_eq!(channels.load(Ordering::SeqCst), 1, "{kind:?}: retried");
        let came = seen.iter().copied().eq(0..2 * BATCH);
        assert!(
            came,
            "{kind:?}: what came before is there, and nothing else"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_channel_suffices_and_an_unreachable_host_is_reported() {
    let (enclave, proxy) = stack(Options::default()).await;
    let (network, channels) = network(proxy, pass).await;
    let (outcome, seen) = embed(&enclave, network, 100).await;
    assert_eq!((outcome.unwrap(), seen.len()), (4, 100));
    assert_eq!(channels.load(Ordering::SeqCst), 1);
    // Without a listener the error is NETWORK, and no policy is requested.
    let nowhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = nowhere.local_addr().unwrap();
    drop(nowhere);
    let (outcome, seen) = embed(&enclave, address, 1).await;
    assert_eq!(outcome.unwrap_err().code(), "NETWORK");
    assert!(seen.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_enclave_gets_nothing() {
    let (_enclave, proxy) = stack(Options::default()).await;
    let (network, channels) = network(proxy, pass).await;
    let client = Client::builder(format!("http://{network}"))
        .build()
        .unwrap();
    let (send, mut receive) = mpsc::channel(1);
    let batch = Batch {
        texts: vec!["hello".to_owned()],
        tag: (),
    };
    send.send(batch).await.ok();
    drop(send);
    let outcome = client.bulk(&mut receive, |_, _| panic!("an answer")).await;
    assert_eq!(outcome.unwrap_err().code(), "POLICY_MISSING");
    assert_eq!(channels.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_set_during_a_run_costs_only_a_connection() {
    let (enclave, proxy) = stack(Options::default()).await;
    // Answers from the future, and answers too old.
    for (before, after) in [(200, 0), (0, 200)] {
        let seconds = Arc::new(AtomicI64::new(before));
        let (time, set) = (Arc::clone(&enclave.rig.time), Arc::clone(&seconds));
        let client = Client::builder(format!("http://{proxy}"))
            .accept_simulated(true)
            .clock(Clock::new(move || {
                let seconds = set.load(Ordering::SeqCst);
                UnixMillis(time.client().0.saturating_add_signed(seconds * 1_000))
            }));
        let client = client.build().unwrap();
        let (send, mut receive) = mpsc::channel(64);
        for tag in 0..40_usize {
            let texts = vec!["hello".to_owned()];
            send.send(Batch { texts, tag }).await.ok().unwrap();
        }
        drop(send);
        let mut seen = Vec::new();
        let outcome = client.bulk(&mut receive, |batch, part| {
            part.outcome?;
            seen.push(batch.tag);
            if batch.tag == 5 {
                seconds.store(after, Ordering::SeqCst);
            }
            Ok(())
        });
        assert_eq!(outcome.await.unwrap(), 40, "{before} to {after}");
        assert!(seen.into_iter().eq(0..40));
    }
}

/// The service's policy with changes, chosen by its user.
async fn policy(host: SocketAddr, change: impl FnOnce(&mut serde_json::Value)) -> Policy {
    let host = Host::new(
        &format!("http://{host}"),
        std::time::Duration::from_secs(60),
    )
    .unwrap();
    let json = host.get("/v1/development-policy", 1 << 16).await.unwrap();
    let mut json = serde_json::from_slice(&json).unwrap();
    change(&mut json);
    Policy::chosen_by_hand(json.to_string().as_bytes()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_is_closed_before_its_next_batch_where_its_release_is_withdrawn() {
    let (enclave, proxy) = stack(Options::default()).await;
    let withdrawn = policy(proxy, |policy| {
        policy["releases"][0]["pcrs"]["0"] = "ab".repeat(48).into();
    });
    let renamed = policy(proxy, |policy| policy["name"] = "renamed".into());
    let (withdrawn, renamed) = tokio::join!(withdrawn, renamed);
    for (next, code) in [(withdrawn, Some("POLICY_WITHDRAWN")), (renamed, None)] {
        let (network, channels) = network(proxy, pass).await;
        let client = client(&enclave, network);
        let (send, mut receive) = mpsc::channel(1);
        let batch = |tag: usize| Batch {
            texts: vec!["hello".to_owned()],
            tag,
        };
        send.send(batch(0)).await.ok().unwrap();
        let mut send = Some(send);
        let mut seen = Vec::new();
        let outcome = client.bulk(&mut receive, |done, part| {
            part.outcome?;
            seen.push(done.tag);
            // The channel is idle now, and would be used for the next batch.
            if let Some(send) = send.take() {
                client.set_policy(next.clone());
                send.try_send(batch(1)).ok().unwrap();
            }
            Ok(())
        });
        let outcome = outcome.await;
        assert_eq!(outcome.as_ref().err().map(Error::code), code);
        match code {
            Some(_) => assert_eq!(seen, [0]),
            None => assert_eq!(seen, [0, 1]),
        }
        assert_eq!(channels.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_the_caller_ends_the_run_whatever_it_is() {
    let (enclave, proxy) = stack(Options::default()).await;
    let client = client(&enclave, proxy);
    let (send, mut receive) = mpsc::channel(2);
    for tag in 0..2 {
        let texts = vec!["hello".to_owned()];
        send.try_send(Batch { texts, tag }).ok().unwrap();
    }
    drop(send);
    let mut taken = Vec::new();
    let outcome = client.bulk(&mut receive, |batch, _| {
        taken.push(batch.tag);
        // The database that the vectors go to, for one.
        Err(Error::Unreachable(Arc::new(Problem {
            code: "NETWORK".to_owned(),
            detail: String::new(),
            remedy: "",
            status: None,
        })))
    });
    assert_eq!(outcome.await.unwrap_err().code(), "NETWORK");
    assert_eq!(taken, [0]);
}

async fn close(_: TcpStream, _: TcpStream, _: usize) {}

/// Takes no more from the client than a handshake.
async fn swallow(near: TcpStream, far: TcpStream, _: usize) {
    let (near_read, mut near_write) = near.into_split();
    let (mut far_read, mut far_write) = far.into_split();
    let mut limited = near_read.take(16 << 10);
    let up = copy(&mut limited, &mut far_write);
    let down = copy(&mut far_read, &mut near_write);
    tokio::select! { _ = up => (), _ = down => () }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_upstream_answers_where_the_channels_of_the_first_fail() {
    let (enclave, proxy) = stack(Options::default()).await;
    let (closed, closed_channels) = network(proxy, close).await;
    let (swallowed, swallowed_channels) = network(proxy, swallow).await;
    let (good, good_channels) = network(proxy, pass).await;
    for (bad, channels) in [(closed, closed_channels), (swallowed, swallowed_channels)] {
        let before = good_channels.load(Ordering::SeqCst);
        let time = Arc::clone(&enclave.rig.time);
        let client = Client::builder(format!("http://{bad}"))
            .upstream(format!("http://{good}"))
            .accept_simulated(true)
            .clock(Clock::new(move || time.client()));
        let batches = (0..20).map(|_| vec!["x".repeat(30 << 10)]).collect();
        let (outcomes, batches) = outcomes(&client.build().unwrap(), batches).await;
        assert_eq!(batches.unwrap(), 20);
        assert!(outcomes.iter().all(|(_, code)| code.is_none()));
        assert_eq!(channels.load(Ordering::SeqCst), 1);
        assert_eq!(good_channels.load(Ordering::SeqCst), before + 1);
    }
}
