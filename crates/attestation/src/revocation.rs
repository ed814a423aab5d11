//! Whether a certificate of the chain was revoked (RFC 5280 §6.3.3). Check 27.
//!
//! Anyone may pass on a revocation list: it is signed by the CA whose certificates it names. The host supplies lists together
//! with the document, and can only withhold them, or pass on an older one that has not ended.

use std::ops::Range;

use der::Encode;

use crate::chain::Link;
use crate::checks::CheckId;
use crate::crl::{Contents, Crl, Fault, MAX_CRLS};
use crate::error::{AttestationError, ErrorCode};
use crate::observed::Observed;
use crate::report::CheckLog;
use crate::signatures::{SignatureId, SignatureMemory};
use crate::time::UnixMillis;

/// Upper bound on the lists of one appraisal, because each costs a signature.
const MAX_LISTS: usize = 64;

/// The outcome of check 27 for a chain of which no certificate is revoked.
#[derive(Clone, Debug)]
pub(crate) struct Revocation {
    /// The first certificate of which the lists should have spoken and did not.
    pub(crate) uncovered: Option<String>,
    /// Places of the lists that the judgement rests on, in order and each once. The same evidence with these alone has the same
    /// outcome at the same moment.
    pub(crate) lists: Vec<Range<usize>>,
    /// First nextUpdate among them, Unix seconds.
    pub(crate) next_update: Option<u64>,
}

/// How the lists cover one certificate that none of them names.
#[derive(Default)]
struct Status {
    /// The latest list that covers it.
    covered: Option<Covered>,
    /// Why a list of its issuer is not used.
    unusable: Option<AttestationError>,
}

/// Dates of a list, thisUpdate and nextUpdate in Unix seconds, and its range among all lists.
type Covered = (u64, u64, Range<usize>);

/// Check 27. `lists` holds revocation lists in DER, one after another. The result names the first certificate that they should
/// have covered and did not; the policy decides whether that is an error.
///
/// Steps, for each list (RFC 5280 §6.3.3):
/// 1. its issuer is a CA of this chain, else it does not concern the chain (b);
/// 2. it is complete, direct and without an unknown critical extension;
/// 3. its issuer may sign lists (f), and signed this one (g);
/// 4. it does not name the certificate that this CA issued (i), (j);
/// 5. the judged moment is between thisUpdate and nextUpdate, and the list covers the certificate (b).
///
/// A list that fails at step 5 proves nothing about a certificate that it does not name. It is refused unless another list of
/// the same CA passes. A certificate that is named stays revoked whatever the dates.
pub(crate) fn check(
    links: &[Link<'_>],
    lists: &[u8],
    at: UnixMillis,
    memory: &mut SignatureMemory,
    log: &mut CheckLog<CheckId>,
) -> Result<Revocation, AttestationError> {
    if lists.len() > MAX_CRLS {
        let observed = Observed::size("revocation lists", lists.len());
        return Err(AttestationError::new(ErrorCode::CrlTooLarge, observed));
    }
    let mut statuses: Vec<Status> = Vec::new();
    statuses.resize_with(links.len(), Status::default);
    let (mut rest, mut count) = (lists, 0);
    while !rest.is_empty() {
        count += 1;
        if count > MAX_LISTS {
            return Err(AttestationError::new(
                ErrorCode::CrlTooLarge,
                "more than 64 revocation lists",
            ));
        }
        let refuse = |name: &str, fault: Fault| {
            let observed = Observed::unreadable(name, fault.what);
            AttestationError::new(fault.code, observed)
        };
        let start = lists.len() - rest.len();
        let crl = Crl::split(&mut rest).map_err(|fault| refuse("a CRL", fault))?;
        let place = start..lists.len() - rest.len();
        for (pair, status) in links.windows(2).zip(statuses.iter_mut().skip(1)) {
            let [issuer, subject] = pair else { continue };
            if !names(issuer, &crl) {
                continue;
            }
            let name = format!("CRL of the {}", issuer.name);
            let contents =
                verify_list(&crl, issuer, subject, memory).map_err(|fault| refuse(&name, fault))?;
            if let Some(revoked) = contents.revoked {
                let observed = Observed::Revoked {
                    certificate: subject.name.clone(),
                    since: UnixMillis::from_seconds(revoked.since),
                    reason: revoked.reason,
                    list: UnixMillis::from_seconds(contents.this_update),
                };
                return Err(AttestationError::new(
                    ErrorCode::CertificateRevoked,
                    observed,
                ));
            }
            match usable(&contents, subject, name, at) {
                Ok(()) => {
                    let (from, until) = (contents.this_update, contents.next_update);
                    let is_later = |(before, end, _): &Covered| (from, until) > (*before, *end);
                    if status.covered.as_ref().is_none_or(is_later) {
                        status.covered = Some((from, until, place.clone()));
                    }
                }
                Err(error) => status.unusable = Some(error),
            }
        }
    }
    let unusable = statuses
        .iter_mut()
        .find(|status| status.covered.is_none() && status.unusable.is_some());
    match unusable.and_then(|status| status.unusable.take()) {
        Some(error) => Err(error),
        None => Ok(Revocation {
            uncovered: report(links, &statuses, count, log),
            ..keep(&statuses)
        }),
    }
}

/// Keeps the lists that cover a certificate. A host can add any number of others.
fn keep(statuses: &[Status]) -> Revocation {
    let covered = || statuses.iter().filter_map(|status| status.covered.as_ref());
    // Few enough to insert one by one; a sort adds 5 KiB to the browser's module.
    let mut places: Vec<Range<usize>> = Vec::new();
    for (_, _, place) in covered() {
        let at = places.partition_point(|other| other.start < place.start);
        if places.get(at) != Some(place) {
            places.insert(at, place.clone());
        }
    }
    Revocation {
        uncovered: None,
        lists: places,
        next_update: covered().map(|(_, until, _)| *until).min(),
    }
}

/// Step 1: a name has one encoding here, so equal names are equal byte by byte.
fn names(issuer: &Link<'_>, crl: &Crl<'_>) -> bool {
    let name = issuer.certificate.subject().to_der();
    name.is_ok_and(|name| name == crl.issuer)
}

/// Steps 2 and 3: the list's contents, once its issuer's signature has been checked.
fn verify_list<'a>(
    crl: &Crl<'a>,
    issuer: &Link<'_>,
    subject: &Link<'_>,
    memory: &mut SignatureMemory,
) -> Result<Contents<'a>, Fault> {
    let contents = crl.read(subject.certificate.serial())?;
    let refuse = |code, what| Fault { code, what };
    if !issuer.certificate.may_sign_crls() {
        return Err(refuse(
            ErrorCode::CrlKeyUsage,
            "its issuer may not sign CRLs",
        ));
    }
    let wrong = refuse(ErrorCode::CrlSignature, "not signed by its issuer's key");
    let key = issuer
        .certificate
        .p384(&issuer.name)
        .map_err(|_| wrong)?
        .key;
    let signature = provider::es384::signature_from_der(crl.signature).ok_or(wrong)?;
    let id = SignatureId::of(&key, crl.tbs, &signature);
    if memory.knows(&id).is_none() && !provider::es384::verify(&key, crl.tbs, &signature) {
        return Err(wrong);
    }
    memory.remember([id]);
    Ok(contents)
}

/// Step 5.
fn usable(
    contents: &Contents<'_>,
    subject: &Link<'_>,
    list: String,
    at: UnixMillis,
) -> Result<(), AttestationError> {
    let [from, until] = [contents.this_update, contents.next_update].map(UnixMillis::from_seconds);
    let now = at.seconds();
    if now < contents.this_update {
        let observed = Observed::NotYetValid {
            certificate: list,
            from,
            at,
        };
        return Err(AttestationError::new(ErrorCode::CrlNotYetValid, observed));
    }
    if now > contents.next_update {
        let observed = Observed::Expired {
            certificate: list,
            until,
            at,
        };
        return Err(AttestationError::new(ErrorCode::CrlExpired, observed));
    }
    let certificate = &subject.certificate;
    contents
        .covers(certificate.is_ca(), certificate.distribution_points())
        .map_err(|what| {
            AttestationError::new(ErrorCode::CrlScope, Observed::unreadable(&list, what))
        })
}

/// Marks the row, and returns a certificate that should have been covered: one that names a place where revocations are
/// published. Genuine chains name it on the regional and zonal certificates. If a chain names none, every certificate
/// whose issuer may sign lists should have been covered.
fn report(
    links: &[Link<'_>],
    statuses: &[Status],
    count: usize,
    log: &mut CheckLog<CheckId>,
) -> Option<String> {
    let published = |link: &Link<'_>| link.certificate.distribution_points().is_some();
    let any_published = links.iter().skip(1).any(published);
    let (mut covered, mut missing) = (Vec::new(), None);
    let (mut oldest, mut until) = (u64::MAX, u64::MAX);
    let mut expects_lists = false;
    for (pair, status) in links.windows(2).zip(statuses.iter().skip(1)) {
        let [issuer, subject] = pair else { continue };
        let expected = match any_published {
            true => published(subject),
            false => issuer.certificate.may_sign_crls(),
        };
        expects_lists |= expected;
        match &status.covered {
            Some((from, to, _)) => {
                covered.push(subject.name.as_str());
                (oldest, until) = (oldest.min(*from), until.min(*to));
            }
            None if expected => {
                missing.get_or_insert_with(|| subject.name.clone());
            }
            None => {}
        }
    }
    if !expects_lists {
        missing = links.last().map(|leaf| leaf.name.clone());
    }
    let row = CheckId::Revocation;
    let [oldest, until] = [oldest, until].map(UnixMillis::from_seconds);
    let summary = format!(
        "Not revoked: {}; per CRL of {oldest}, good until {until}",
        covered.join(", ")
    );
    match (&missing, count) {
        (_, 0) => log.waive(row, "No CRL given: revocation was not judged"),
        _ if covered.is_empty() => {
            log.waive(
                row,
                "No CRL of an issuer in this chain: revocation was not judged",
            );
        }
        (Some(missing), _) => log.waive(row, format!("{summary}. No CRL about the {missing}")),
        (None, _) => log.pass(row, summary),
    }
    missing
}
