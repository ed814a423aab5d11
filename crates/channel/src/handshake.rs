//! Both halves of the handshake, each under one deadline.

use std::time::Duration;

use attestation::{Kem, Policy, SignatureMemory, UnixMillis, VerifiedAttestation};
use protocol::channel::frame::{HEADER, Step, rejection_header};
use protocol::channel::{
    Accepted, Attested, ChannelError, ClientOptions, DocumentedOffer, Hint, MonotonicMillis, Offer,
    Prepared, ReceivedHello, Session, begin, preferred_aeads,
};
use protocol::receipt::ReceiptSigner;
use rand_core::CryptoRng;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};

use crate::error::Refused;
use crate::{Clock, Error, Incoming, Outgoing};

/// An open channel. Its halves are independent.
pub struct Channel<S> {
    /// What the peer sends.
    pub incoming: Incoming<ReadHalf<S>>,
    /// What the peer gets.
    pub outgoing: Outgoing<WriteHalf<S>>,
    /// Hash of the handshake; the same at both ends.
    pub id: [u8; 32],
}

/// What a client demands of a server, and what it has verified so far.
pub struct Verifier {
    policy: Policy,
    accepts_simulated: bool,
    memory: SignatureMemory,
    known: Option<VerifiedAttestation>,
    crls: Vec<u8>,
    kems: &'static [Kem],
}

impl Verifier {
    /// Accepts enclaves that are *verified* under `policy`.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            accepts_simulated: false,
            memory: SignatureMemory::new(),
            known: None,
            crls: Vec::new(),
            kems: &Kem::ALL,
        }
    }

    /// Judges documents with these certificate revocation lists, in DER, one after another. A policy may require them.
    #[must_use]
    pub fn with_crls(self, crls: Vec<u8>) -> Self {
        Self { crls, ..self }
    }

    /// X25519 alone: faster to establish, but what is recorded today will be open to a quantum computer tomorrow.
    #[must_use]
    pub fn classic(self) -> Self {
        Self {
            kems: &[Kem::X25519],
            ..self
        }
    }

    /// Accepts simulated enclaves as well, whose operator reads everything: for development.
    #[must_use]
    pub fn including_simulated(self) -> Self {
        Self {
            accepts_simulated: true,
            ..self
        }
    }

    /// The enclave of the last channel. The next handshake names it, and may so do without a document.
    pub fn known(&self) -> Option<&VerifiedAttestation> {
        self.known.as_ref()
    }

    fn judge(&mut self, offer: DocumentedOffer, now: UnixMillis) -> Result<Attested, Error> {
        let offer = offer.with_crls(self.crls.clone());
        let (report, judged) = offer.appraise(&self.policy, now, &mut self.memory);
        let attested = match self.accepts_simulated {
            true => judged.including_simulated(),
            false => judged.verified(),
        };
        attested?.ok_or_else(|| {
            Error::Refused(Refused {
                code: report.code.unwrap_or_else(|| "SIMULATED".to_owned()),
                message: report.message.unwrap_or_else(|| {
                    "the enclave is simulated, and that was not allowed".to_owned()
                }),
                remedy: report
                    .remedy
                    .unwrap_or_else(|| "Send nothing to it.".to_owned()),
            })
        })
    }
}

/// Opens a channel as a client, within `deadline`. `now` is the client's wall clock at the call; evidence is judged as of the moment
/// at which it arrives.
///
/// # Errors
/// [`Error`]; [`Error::is_transient`] says whether trying again can help.
pub async fn connect<S: AsyncRead + AsyncWrite>(
    stream: S,
    verifier: &mut Verifier,
    now: UnixMillis,
    deadline: Duration,
    rng: &mut impl CryptoRng,
) -> Result<Channel<S>, Error> {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let clock = Clock::start();
    let handshake = async {
        // An attestation that is over is of no use to anyone.
        verifier
            .known
            .take_if(|known| known.clock_offset().to_enclave(now) > known.valid_until());
        let options = ClientOptions {
            known: verifier.known.as_ref(),
            kems: verifier.kems,
            ..ClientOptions::default()
        };
        let (hello, awaiting) = begin(options, rng)?;
        write(&mut writer, Step::ClientHello, &hello).await?;
        let answer = read(&mut reader, Step::ServerHello).await?;
        let now = clock.wall(now);
        let attested = match awaiting.receive(&answer)? {
            Offer::Documented(offer) => verifier.judge(offer, now)?,
            Offer::Endorsed(offer) => offer.check(now)?,
        };
        verifier.known = Some(attested.attestation().clone());
        let (key, session) = attested.finish(clock.now(), rng)?;
        write(&mut writer, Step::ClientKey, &key).await?;
        Ok::<_, Error>(session)
    };
    let session = tokio::time::timeout(deadline, handshake)
        .await
        .map_err(|_| Error::Silent)??;
    Ok(channel(reader, writer, session, clock))
}

/// Opens a channel to the enclave behind `known` and to no other, within `deadline`: its receipt key has to endorse the
/// session's key. Judging evidence stays where it is done for requests. `now` is as for [`connect`].
///
/// # Errors
/// [`Error::Stale`] where the server offers a document instead: verify it again, then connect again.
pub async fn connect_known<S: AsyncRead + AsyncWrite>(
    stream: S,
    known: &VerifiedAttestation,
    now: UnixMillis,
    deadline: Duration,
    rng: &mut impl CryptoRng,
) -> Result<Channel<S>, Error> {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let clock = Clock::start();
    let handshake = async {
        let options = ClientOptions {
            known: Some(known),
            ..ClientOptions::default()
        };
        let (hello, awaiting) = begin(options, rng)?;
        write(&mut writer, Step::ClientHello, &hello).await?;
        let answer = read(&mut reader, Step::ServerHello).await?;
        let Offer::Endorsed(offer) = awaiting.receive(&answer)? else {
            return Err(Error::Stale);
        };
        let (key, session) = offer.check(clock.wall(now))?.finish(clock.now(), rng)?;
        write(&mut writer, Step::ClientKey, &key).await?;
        Ok::<_, Error>(session)
    };
    let session = tokio::time::timeout(deadline, handshake)
        .await
        .map_err(|_| Error::Silent)??;
    Ok(channel(reader, writer, session, clock))
}

/// How a server shows whose the fresh key is.
pub enum Evidence<'a> {
    /// A document for [`Prepared::nonce`] and the manifest that lists [`Prepared::configs`].
    Document {
        /// The document.
        document: Vec<u8>,
        /// The manifest.
        manifest: Vec<u8>,
    },
    /// A signature of the receipt key that the client [knows](ReceivedHello::known).
    Endorsement(&'a ReceiptSigner),
    /// None at the moment: the client is turned away.
    Busy,
}

/// Opens a channel as a server, within `deadline`; the session lasts `lifetime` at most.
///
/// `attest` is asked for evidence of one fresh key, with the receipt key that the client knows.
///
/// # Errors
/// [`Error`].
pub async fn accept<'a, S: AsyncRead + AsyncWrite>(
    stream: S,
    attest: impl AsyncFnOnce(&Prepared, Option<[u8; 32]>) -> Evidence<'a>,
    deadline: Duration,
    lifetime: Duration,
    rng: &mut impl CryptoRng,
) -> Result<Channel<S>, Error> {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let clock = Clock::start();
    let handshake = async {
        let hello = read(&mut reader, Step::ClientHello).await?;
        let arrival = ReceivedHello::read(&hello, preferred_aeads())?;
        let known = arrival.known().copied();
        let prepared = arrival.prepare(rng);
        let (answer, awaiting) = match attest(&prepared, known).await {
            Evidence::Document { document, manifest } => prepared.document(
                attestation::Evidence {
                    document: &document,
                    manifest: &manifest,
                },
                false,
            ),
            Evidence::Endorsement(signer) => prepared.endorse(signer, false)?,
            Evidence::Busy => {
                writer.write_all(&rejection_header(Hint::Busy)).await?;
                writer.flush().await?;
                return Err(ChannelError::Rejected(Hint::Busy).into());
            }
        };
        write(&mut writer, Step::ServerHello, &answer).await?;
        let key = read(&mut reader, Step::ClientKey).await?;
        let now = clock.now();
        let lifetime = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX);
        let expires = MonotonicMillis(now.0.saturating_add(lifetime));
        match awaiting.receive(&key, now, expires)? {
            Accepted::Anonymous(session) => Ok(session),
            // Evidence is never asked for here.
            Accepted::WithEvidence(_) => Err(ChannelError::Malformed.into()),
        }
    };
    let session: Result<Session, Error> = tokio::time::timeout(deadline, handshake)
        .await
        .map_err(|_| Error::Silent)?;
    Ok(channel(reader, writer, session?, clock))
}

fn channel<S: AsyncRead + AsyncWrite>(
    reader: ReadHalf<S>,
    writer: WriteHalf<S>,
    session: Session,
    clock: Clock,
) -> Channel<S> {
    Channel {
        incoming: Incoming::new(reader, session.receiver),
        outgoing: Outgoing::new(writer, session.sender, clock),
        id: session.id,
    }
}

async fn write(
    writer: &mut (impl AsyncWrite + Unpin),
    step: Step,
    message: &[u8],
) -> Result<(), Error> {
    writer.write_all(&step.frame(message)).await?;
    Ok(writer.flush().await?)
}

/// The size is checked before memory is taken for it.
async fn read(reader: &mut (impl AsyncRead + Unpin), step: Step) -> Result<Vec<u8>, Error> {
    let mut header = [0; HEADER];
    reader.read_exact(&mut header).await?;
    let mut message = vec![0; step.length(&header)?];
    reader.read_exact(&mut message).await?;
    Ok(message)
}
