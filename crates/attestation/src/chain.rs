//! The certificate chain from the pinned root to the leaf. Checks 13 to 16 and 18 to 20, and the informational 26.

use provider::es384::{Signature, VerifyingKey};
use sha2::{Digest, Sha256};

use crate::anchor::TrustAnchor;
use crate::certificate::{Certificate, P384, role};
use crate::checks::CheckId;
use crate::claims::Claims;
use crate::error::{AttestationError, ErrorCode};
use crate::observed::Observed;
use crate::report::{CertificateView, CheckLog};
use crate::signatures::{Known, PendingSignature, SignatureId, SignatureMemory};
use crate::time::UnixMillis;

/// The facts about a verified chain that later stages need.
pub(crate) struct VerifiedLeaf<'a> {
    /// Root first, leaf last.
    pub(crate) links: Vec<Link<'a>>,
    pub(crate) key: VerifyingKey,
    /// The earliest end of a certificate in the chain, Unix seconds. A regional CA may end before its leaf does.
    pub(crate) chain_not_after: u64,
    /// The chain for a reader, root first.
    pub(crate) views: Vec<CertificateView>,
    common_names: Vec<Option<String>>,
}

/// One certificate of the chain.
pub(crate) struct Link<'a> {
    /// Name by position: `root`, `certificate 1`, `leaf`.
    pub(crate) name: String,
    role: &'static str,
    der: &'a [u8],
    pub(crate) certificate: Certificate<'a>,
}

/// Checks 13 to 16 and 18 to 20. Takes the bundle in the order received; does not search it for another path.
///
/// Cheap checks run first: an attacker has to get names, dates and constraints right before the first signature is
/// computed. Signatures that `memory` knows are not computed again; every other check runs
/// in any case.
pub(crate) fn verify<'a>(
    claims: &'a Claims,
    anchor: &TrustAnchor,
    at: UnixMillis,
    memory: &mut SignatureMemory,
    log: &mut CheckLog<CheckId>,
) -> Result<VerifiedLeaf<'a>, AttestationError> {
    let links = check_form(claims, anchor, at, log)?;
    let (key, known) = check_signatures(&links, memory)?;
    log.pass(
        CheckId::Signatures,
        format!(
            "{} signatures, ECDSA P-384 with SHA-384{known}",
            links.len() - 1
        ),
    );
    let chain_not_after = first_end(&links);
    let common_names = links
        .iter()
        .map(|link| {
            let name = link.certificate.common_name();
            name.map(str::to_owned)
        })
        .collect();
    let views = links
        .iter()
        .map(|link| link.certificate.view(link.role, link.der))
        .collect();
    Ok(VerifiedLeaf {
        links,
        key,
        chain_not_after,
        views,
        common_names,
    })
}

/// The signatures that [`verify`] will need, and the leaf's key.
pub(crate) fn signatures(
    claims: &Claims,
    anchor: &TrustAnchor,
    at: UnixMillis,
    log: &mut CheckLog<CheckId>,
) -> Result<(Vec<PendingSignature>, VerifyingKey), AttestationError> {
    let links = check_form(claims, anchor, at, log)?;
    let (signed, leaf) = signed(&links)?;
    let pending = signed.iter().map(|signed| {
        let message = signed.link.certificate.tbs.to_vec();
        PendingSignature::new(&signed.issuer, message, &signed.signature)
    });
    Ok((pending.collect(), leaf))
}

/// All checks of a chain except its signatures.
fn check_form<'a>(
    claims: &'a Claims,
    anchor: &TrustAnchor,
    at: UnixMillis,
    log: &mut CheckLog<CheckId>,
) -> Result<Vec<Link<'a>>, AttestationError> {
    check_root(claims, anchor, log)?;
    let links = parse(claims)?;
    log.pass(
        CheckId::StrictDer,
        format!(
            "{} certificates in strict DER, no unknown critical extension",
            links.len()
        ),
    );
    check_names(&links)?;
    log.pass(CheckId::Names, format!("{} names chain", links.len() - 1));
    check_validity(&links, at, log)?;
    check_constraints(&links)?;
    log.pass(
        CheckId::Constraints,
        format!(
            "{} issuers, 1 leaf, path lengths respected",
            links.len() - 1
        ),
    );
    check_key_usage(&links)?;
    log.pass(
        CheckId::KeyUsage,
        "keyCertSign on issuers, digitalSignature on the leaf",
    );
    Ok(links)
}

/// Check 26: warns if instance or region disagree. Never decides a verdict.
pub(crate) fn compare_names(leaf: &VerifiedLeaf<'_>, module_id: &str, log: &mut CheckLog<CheckId>) {
    let named = |at: usize| {
        leaf.common_names
            .get(at)
            .and_then(Option::as_deref)
            .unwrap_or_default()
    };
    let last = leaf.common_names.len() - 1;
    // `i-…-enc….us-east-1.aws` under `i-….us-east-1.aws.nitro-enclaves` and its issuers.
    let Some(region) = named(last)
        .strip_prefix(module_id)
        .and_then(|rest| rest.strip_prefix('.'))
    else {
        log.warn(
            CheckId::NamesAgree,
            format!("leaf {} is not named after {module_id}", named(last)),
        );
        return;
    };
    let region = region.strip_suffix(".aws").unwrap_or(region);
    let ending = format!(".{region}.aws.nitro-enclaves");
    match (1..last).find(|at| !named(*at).ends_with(&ending)) {
        Some(at) => log.warn(
            CheckId::NamesAgree,
            format!("{} is not of region {region}", named(at)),
        ),
        None => log.pass(CheckId::NamesAgree, format!("{module_id} in {region}")),
    }
}

/// Check 13.
fn check_root(
    claims: &Claims,
    anchor: &TrustAnchor,
    log: &mut CheckLog<CheckId>,
) -> Result<(), AttestationError> {
    let root = claims.cabundle.first().map_or(&[][..], Vec::as_slice);
    let observed = Observed::Root {
        sha256: Sha256::digest(root).into(),
    };
    // RFC 5280 §6.1.1 (d): trust begins with this certificate as a whole, so its own signature adds nothing.
    if root != anchor.der() {
        return Err(AttestationError::new(ErrorCode::RootNotPinned, observed));
    }
    let whose = if anchor.is_aws() {
        "AWS"
    } else {
        "development, not AWS"
    };
    log.pass(
        CheckId::Root,
        format!(
            "{} certificates, {observed} ({whose})",
            claims.cabundle.len() + 1
        ),
    );
    Ok(())
}

/// Check 20.
fn parse(claims: &Claims) -> Result<Vec<Link<'_>>, AttestationError> {
    let total = claims.cabundle.len() + 1;
    let certificates = claims
        .cabundle
        .iter()
        .chain([&claims.certificate])
        .enumerate();
    certificates
        .map(|(at, der)| {
            let role = role(at, total);
            let name = match role {
                "ca" => format!("certificate {at}"),
                role => role.to_owned(),
            };
            Ok(Link {
                certificate: Certificate::parse(der, &name)?,
                name,
                role,
                der,
            })
        })
        .collect()
}

/// Check 15, RFC 5280 §6.1.3 (a)(4). A name has one encoding here, so equal names are equal byte by byte.
fn check_names(links: &[Link<'_>]) -> Result<(), AttestationError> {
    for pair in links.windows(2) {
        let [issuer, subject] = pair else { continue };
        if subject.certificate.issuer() != issuer.certificate.subject() {
            let observed = Observed::Issuer {
                subject: subject.name.clone(),
                issuer: issuer.name.clone(),
            };
            return Err(AttestationError::new(ErrorCode::ChainNames, observed));
        }
        // RFC 5280 §6.1 allows a self-issued certificate for key roll-over. AWS has none below the root, and a repeated
        // root would make a chain longer than its path lengths allow.
        if subject.certificate.issuer() == subject.certificate.subject() {
            let observed = Observed::certificate(&subject.name, "names itself as its issuer");
            return Err(AttestationError::new(ErrorCode::ChainNames, observed));
        }
    }
    Ok(())
}

/// Check 16, RFC 5280 §6.1.3 (a)(2). Both ends are inclusive, in whole seconds: some documents were made in the
/// same second as their leaf's notBefore.
fn check_validity(
    links: &[Link<'_>],
    at: UnixMillis,
    log: &mut CheckLog<CheckId>,
) -> Result<(), AttestationError> {
    let now = at.seconds();
    for Link {
        name, certificate, ..
    } in links
    {
        if now < certificate.not_before {
            let observed = Observed::NotYetValid {
                certificate: name.clone(),
                from: UnixMillis::from_seconds(certificate.not_before),
                at,
            };
            return Err(AttestationError::new(
                ErrorCode::CertificateNotYetValid,
                observed,
            ));
        }
        if now > certificate.not_after {
            let observed = Observed::Expired {
                certificate: name.clone(),
                until: UnixMillis::from_seconds(certificate.not_after),
                at,
            };
            return Err(AttestationError::new(
                ErrorCode::CertificateExpired,
                observed,
            ));
        }
    }
    let until = UnixMillis::from_seconds(first_end(links));
    log.pass(
        CheckId::Validity,
        format!("All {} valid at {at}, until {until}", links.len()),
    );
    Ok(())
}

fn first_end(links: &[Link<'_>]) -> u64 {
    let ends = links.iter().map(|link| link.certificate.not_after);
    ends.min().unwrap_or(0)
}

/// Check 18, RFC 5280 §6.1.4 (k) to (m) and §4.2.1.9.
fn check_constraints(links: &[Link<'_>]) -> Result<(), AttestationError> {
    let refuse = |name: &str, is: &'static str| {
        Err(AttestationError::new(
            ErrorCode::BasicConstraints,
            Observed::certificate(name, is),
        ))
    };
    let Some((leaf, issuers)) = links.split_last() else {
        return Ok(());
    };
    for (
        at,
        Link {
            name, certificate, ..
        },
    ) in issuers.iter().enumerate()
    {
        let Some((critical, constraints)) = &certificate.constraints else {
            return refuse(name, "has no basicConstraints");
        };
        if !constraints.ca {
            return refuse(name, "is not a CA");
        }
        if !critical {
            return refuse(name, "has basicConstraints that are not critical");
        }
        // §4.2.1.9: the number of issuers that may follow this one, without the leaf.
        let below = issuers.len() - at - 1;
        if let Some(limit) = constraints
            .path_length
            .filter(|limit| below > usize::from(*limit))
        {
            let observed = Observed::PathLength {
                certificate: name.clone(),
                limit,
                below,
            };
            return Err(AttestationError::new(ErrorCode::PathLength, observed));
        }
    }
    match &leaf.certificate.constraints {
        None => refuse(&leaf.name, "has no basicConstraints"),
        Some((_, constraints)) if constraints.ca => refuse(&leaf.name, "is a CA"),
        Some((_, constraints)) if constraints.path_length.is_some() => {
            refuse(&leaf.name, "has a path length without being a CA")
        }
        Some((false, _)) => refuse(&leaf.name, "has basicConstraints that are not critical"),
        Some((true, _)) => Ok(()),
    }
}

/// Check 19, RFC 5280 §6.1.4 (n) and §4.2.1.3.
fn check_key_usage(links: &[Link<'_>]) -> Result<(), AttestationError> {
    let last = links.len() - 1;
    for (
        at,
        Link {
            name, certificate, ..
        },
    ) in links.iter().enumerate()
    {
        let missing = match certificate.usage {
            None => "has no keyUsage",
            Some(usage) if at < last && !usage.key_cert_sign() => "may not sign certificates",
            Some(usage) if at == last && !usage.digital_signature() => "may not sign documents",
            // §4.2.1.3: keyCertSign requires CA:TRUE.
            Some(usage) if at == last && usage.key_cert_sign() => {
                "is a leaf that may sign certificates"
            }
            Some(_) => continue,
        };
        return Err(AttestationError::new(
            ErrorCode::KeyUsage,
            Observed::certificate(name, missing),
        ));
    }
    Ok(())
}

/// A certificate below the root, with the inputs of its signature check.
struct Signed<'a> {
    link: &'a Link<'a>,
    issuer: VerifyingKey,
    signature: Signature,
}

/// First half of check 14: every key is on P-384, and every signature is an ECDSA value for it. Also returns the leaf's key.
fn signed<'a>(links: &'a [Link<'a>]) -> Result<(Vec<Signed<'a>>, VerifyingKey), AttestationError> {
    let p384: Vec<P384> = links
        .iter()
        .map(|link| link.certificate.p384(&link.name))
        .collect::<Result<_, AttestationError>>()?;
    // The root's own signature is not computed. Check 13 compared all its bytes, the signature included, with the pinned
    // ones; and a self-signature shows only that someone held the key.
    let below_root = links.iter().zip(&p384).skip(1);
    let signed = p384
        .iter()
        .zip(below_root)
        .map(|(issuer, (link, own))| Signed {
            link,
            issuer: issuer.key,
            signature: own.signature,
        })
        .collect();
    match p384.last() {
        Some(leaf) => Ok((signed, leaf.key)),
        None => Err(AttestationError::new(
            ErrorCode::ChainSignature,
            "no certificate",
        )),
    }
}

/// Check 14, RFC 5280 §6.1.3 (a)(1), root first. Returns how many signatures were known already.
fn check_signatures(
    links: &[Link<'_>],
    memory: &mut SignatureMemory,
) -> Result<(VerifyingKey, String), AttestationError> {
    let (signed, leaf) = signed(links)?;
    let mut ids = Vec::with_capacity(signed.len());
    let (mut remembered, mut vouched) = (0, 0);
    for Signed {
        link: Link {
            name, certificate, ..
        },
        issuer,
        signature,
    } in &signed
    {
        let id = SignatureId::of(issuer, certificate.tbs, signature);
        match memory.knows(&id) {
            Some(Known::Remembered) => remembered += 1,
            Some(Known::Vouched) => vouched += 1,
            None if certificate.is_signed_by(issuer, signature) => {}
            None => {
                let observed = Observed::certificate(name, "is not signed by its issuer's key");
                return Err(AttestationError::new(ErrorCode::ChainSignature, observed));
            }
        }
        ids.push(id);
    }
    memory.remember(ids);
    let mut known = String::new();
    if remembered > 0 {
        known = format!("; {remembered} remembered");
    }
    if vouched > 0 {
        known = format!("{known}; {vouched} computed by the platform");
    }
    Ok((leaf, known))
}
