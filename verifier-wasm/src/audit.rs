//! Audits: offline verification of one or many receipts with the evidence that was added.

mod opening;
mod report;
mod summary;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use attestation::{
    AttestationReport, CheckLog, PendingSignature, Policy, ReceiptKey, SignatureMemory, UnixMillis,
    Verdict, pending_signatures,
};
use base16ct::lower::encode_string as hex;
use intake::{Item, ItemContent};
use merkle::json::Inclusion;
use protocol::bundle::{AuditBundle, BundleContent, BundleReport, unverified_time};
use protocol::commitment::{request_hash, response_hash};
use protocol::log::{EarlierHead, LogReport};
use protocol::receipt::{self, ClaimsView, Expectations, ParsedReceipt, ReceiptReport};
use protocol::terms::SALT_LEN;
use tsify::{Ts, Tsify};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsError, JsValue};

use crate::offline::read;
use crate::policy::{Refusal, policy_text, trusted_policy};
use crate::stopwatch::stopwatch;
use opening::{made_at, open, salt_of};
pub use report::{
    AuditAppraisal, AuditBasis, AuditIntake, AuditPolicy, AuditSummary, OpenedContent,
};
use summary::{link, summarise};

struct Evidence {
    document: Vec<u8>,
    manifest: Vec<u8>,
    crls: Vec<u8>,
    /// Signature of the document, once it was verified here: later receipts of the same enclave skip it.
    verified_signature: RefCell<Option<PendingSignature>>,
}

impl Evidence {
    /// Bundle of a receipt and this evidence.
    fn bundle(&self, receipt: &[u8], content: Option<&BundleContent>) -> AuditBundle {
        AuditBundle {
            salt: None,
            crls: self.crls.clone(),
            receipt: receipt.to_vec(),
            document: self.document.clone(),
            manifest: self.manifest.clone(),
            content: content.map(|content| BundleContent {
                request: content.request.clone(),
                response: content.response.clone(),
            }),
        }
    }
}

enum Subject {
    Bundle {
        receipt: Vec<u8>,
        evidence: Rc<Evidence>,
        content: Option<BundleContent>,
        salt: Option<[u8; SALT_LEN]>,
    },
    Receipt(Vec<u8>),
    Unreadable(intake::Unreadable),
}

struct Entry {
    subject: Subject,
    encoding: intake::Encoding,
    line: u32,
}

struct Reports {
    attestation: Option<AttestationReport>,
    receipt: ReceiptReport,
    /// Unverified claims of a receipt without a key.
    claimed: Option<ClaimsView>,
    basis: AuditBasis,
}

/// The input of one audit, with the policy and key to verify it. Needs no clock: every receipt is verified as of its
/// time.
#[wasm_bindgen]
pub struct Auditor {
    /// Chosen by hand, or built in. Input never replaces it.
    trusted_policy: Option<Result<Policy, Refusal>>,
    /// From the service, or from the input: leads to *simulated* at best.
    input_policy: Result<Policy, Refusal>,
    key: Option<[u8; 32]>,
    entries: Vec<Entry>,
    /// By SHA-256 of the document, which may occur with different manifests.
    evidence: BTreeMap<[u8; 32], Vec<Rc<Evidence>>>,
    memory: RefCell<SignatureMemory>,
}

#[wasm_bindgen]
impl Auditor {
    /// `policy` is the caller's policy as JSON text; defaults to the policy of this build. `serverPolicy`, or a policy in the
    /// input, is used only if there is neither, and then no verdict is better than *simulated*.
    #[wasm_bindgen(constructor)]
    pub fn new(
        #[wasm_bindgen(unchecked_param_type = "string | null | undefined")] policy: JsValue,
        server_policy: Option<String>,
    ) -> Self {
        let trusted_policy = match policy_text(&policy) {
            Ok(policy) => trusted_policy(policy.as_deref()),
            Err(refusal) => Some(Err(refusal)),
        };
        let input_policy = match server_policy {
            Some(json) => Policy::with_evidence(json.as_bytes()).map_err(Refusal::from),
            None => Err(Refusal::no_policy()),
        };
        Self {
            trusted_policy,
            input_policy,
            key: None,
            entries: Vec::new(),
            evidence: BTreeMap::new(),
            memory: RefCell::default(),
        }
    }

    /// Adds pasted or dropped input in any supported format.
    pub fn add(&mut self, bytes: &[u8]) -> Result<Ts<AuditIntake>, JsError> {
        self.add_items(intake::recognise(bytes), 0)
    }

    /// Adds a chunk of a long file, split between lines, after `linesBefore` earlier lines.
    #[wasm_bindgen(js_name = addLines)]
    pub fn add_lines(
        &mut self,
        bytes: &[u8],
        lines_before: u32,
    ) -> Result<Ts<AuditIntake>, JsError> {
        self.add_items(intake::recognise_lines(bytes), lines_before)
    }

    /// Summary of one item; undefined past the last.
    pub fn summary(&self, index: u32) -> Result<Option<Ts<AuditSummary>>, JsError> {
        let Some(entry) = self.entry(index) else {
            return Ok(None);
        };
        let judged = self.judge_entry(entry, false);
        Ok(Some(summarise(index, entry, &judged).into_ts()?))
    }

    /// Full appraisal of one item; undefined past the last.
    pub fn judge(&self, index: u32) -> Result<Option<Ts<AuditAppraisal>>, JsError> {
        let Some(entry) = self.entry(index) else {
            return Ok(None);
        };
        let judged = self.judge_entry(entry, true);
        let judgement = AuditAppraisal {
            summary: summarise(index, entry, &judged),
            encoding: entry.encoding.as_str().to_owned(),
            opened: open(&entry.subject, &judged.receipt),
            link: link(&entry.subject),
            attestation: judged.attestation,
            receipt: judged.receipt,
            claimed: judged.claimed,
            salt: match &entry.subject {
                Subject::Bundle { salt, .. } => salt.as_ref().map(|salt| hex(salt)),
                _ => None,
            },
        };
        Ok(Some(judgement.into_ts()?))
    }

    /// Checks whether a receipt commits to a `POST /v1/embeddings` with this content and this salt (hex), made within minutes of
    /// the receipt. Returns the date of the request, Unix milliseconds; undefined without a match.
    #[wasm_bindgen(js_name = opensRequest)]
    pub fn opens_request(&self, index: u32, salt: &str, content: Vec<u8>) -> Option<f64> {
        let claims = self.claims(index)?;
        let date = made_at(&claims, &salt_of(salt)?, content)?;
        // Bounded by the year 9999, far below 2^53.
        #[allow(clippy::cast_precision_loss)]
        let date = date.0 as f64;
        Some(date)
    }

    /// Checks whether the receipt of a bundle is in the log that its enclave signed; `inclusion` is the host's proof (JSON).
    /// `earlier` is a proof that was valid before, of any receipt of this log: the log must extend its head, as shown by the
    /// proof `consistency` if the sizes differ. Undefined for items that are not bundles: the key of a log must come from
    /// evidence.
    #[wasm_bindgen(js_name = inLog)]
    pub fn in_log(
        &self,
        index: u32,
        inclusion: &str,
        earlier: Option<String>,
        consistency: Option<String>,
    ) -> Result<Option<Ts<LogReport>>, JsError> {
        let Some(Subject::Bundle {
            receipt, evidence, ..
        }) = self.entry(index).map(|entry| &entry.subject)
        else {
            return Ok(None);
        };
        let bundle = evidence.bundle(receipt, None);
        let judged = self.policy().map_err(Refusal::clone).and_then(|policy| {
            let inclusion = read(inclusion)?;
            let earlier: Option<Inclusion> = earlier.as_deref().map(read).transpose()?;
            let consistency = consistency.as_deref().map(read).transpose()?;
            let earlier = earlier.as_ref().map(|earlier| EarlierHead {
                head: &earlier.head,
                consistency: consistency.as_ref(),
            });
            let mut memory = self.memory.borrow_mut();
            let timer = || Some(stopwatch());
            Ok(bundle
                .verify_logged(policy, &inclusion, earlier, timer, &mut memory)
                .1)
        });
        let report = judged.unwrap_or_else(|refusal| {
            LogReport::refused_unchecked(&refusal.code, &refusal.message, &refusal.remedy)
        });
        Ok(Some(report.into_ts()?))
    }

    /// Checks whether a receipt commits to this response content under this salt (hex).
    #[wasm_bindgen(js_name = opensResponse)]
    pub fn opens_response(&self, index: u32, salt: &str, content: &[u8]) -> bool {
        let committed = self.claims(index).map(|claims| claims.response_hash);
        let computed = salt_of(salt).map(|salt| hex(&response_hash(&salt, content)));
        committed.is_some() && committed == computed
    }
}

impl Auditor {
    /// The policy in use: the trusted one if there is one, otherwise that of the input.
    fn policy(&self) -> Result<&Policy, &Refusal> {
        let policy = self.trusted_policy.as_ref();
        policy.unwrap_or(&self.input_policy).as_ref()
    }

    fn entry(&self, index: u32) -> Option<&Entry> {
        self.entries.get(usize::try_from(index).ok()?)
    }

    fn claims(&self, index: u32) -> Option<ClaimsView> {
        let judged = self.judge_entry(self.entry(index)?, false);
        judged.receipt.claims
    }

    fn add_items(
        &mut self,
        items: Vec<Item>,
        lines_before: u32,
    ) -> Result<Ts<AuditIntake>, JsError> {
        let encoding = items.first().map(|item| item.encoding.as_str().to_owned());
        let (mut policy, mut key) = (None, None);
        for Item {
            content,
            encoding,
            line,
        } in items
        {
            let subject = match content {
                ItemContent::Policy(Ok(found)) => {
                    let applies = self.trusted_policy.is_none();
                    policy = Some(AuditPolicy {
                        name: found.name().to_owned(),
                        applies,
                    });
                    if applies {
                        self.input_policy = Ok(*found);
                    }
                    continue;
                }
                ItemContent::Policy(Err(error)) => {
                    // Replaces the previous policy, so that an unreadable one is not ignored.
                    let unreadable = intake::Unreadable {
                        code: "POLICY_UNREADABLE",
                        message: format!("{error} ({})", error.code()),
                        remedy: "Correct the policy, and add it again.",
                    };
                    self.input_policy = Err(error.into());
                    Subject::Unreadable(unreadable)
                }
                ItemContent::Key(bytes) => {
                    self.key = Some(bytes);
                    key = Some(hex(&bytes));
                    continue;
                }
                ItemContent::Receipt(receipt) => Subject::Receipt(receipt),
                ItemContent::Bundle(bundle) => self.bundle(*bundle),
                ItemContent::Unreadable(why) => Subject::Unreadable(why),
            };
            let line = lines_before.saturating_add(line);
            self.entries.push(Entry {
                subject,
                encoding,
                line,
            });
        }
        let intake = AuditIntake {
            total: u32::try_from(self.entries.len()).unwrap_or(u32::MAX),
            policy,
            key,
            encoding,
        };
        Ok(intake.into_ts()?)
    }

    /// Stores each document and manifest once: thousands of receipts of one enclave share them.
    fn bundle(&mut self, bundle: AuditBundle) -> Subject {
        let AuditBundle {
            receipt,
            document,
            manifest,
            content,
            salt,
            crls,
        } = bundle;
        let known = self.evidence.entry(request_hash(&document)).or_default();
        let same = |one: &&Rc<Evidence>| one.manifest == manifest && one.crls == crls;
        let evidence = known.iter().find(same).cloned();
        let evidence = evidence.unwrap_or_else(|| {
            let evidence = Rc::new(Evidence {
                document,
                manifest,
                crls,
                verified_signature: RefCell::default(),
            });
            known.push(Rc::clone(&evidence));
            evidence
        });
        Subject::Bundle {
            receipt,
            evidence,
            content,
            salt,
        }
    }

    fn judge_entry(&self, entry: &Entry, timed: bool) -> Reports {
        match &entry.subject {
            Subject::Bundle {
                receipt,
                evidence,
                content,
                ..
            } => self.with_evidence(
                receipt,
                evidence,
                content.as_ref(),
                AuditBasis::Bundle,
                timed,
            ),
            Subject::Receipt(receipt) => self.receipt_alone(receipt, timed),
            Subject::Unreadable(why) => Reports {
                attestation: None,
                claimed: None,
                receipt: ReceiptReport::refused_unchecked(
                    why.code,
                    &why.message,
                    why.remedy,
                    UnixMillis(0),
                ),
                basis: AuditBasis::None,
            },
        }
    }

    fn receipt_alone(&self, receipt: &[u8], timed: bool) -> Reports {
        let mut log = CheckLog::new().with_stopwatch(stopwatch());
        let parsed = ParsedReceipt::parse(receipt, &mut log).ok();
        let named = parsed
            .as_ref()
            .and_then(|parsed| <[u8; 32]>::try_from(parsed.unverified_document_hash()).ok());
        let candidates = named.and_then(|hash| self.evidence.get(&hash));
        let mut last = None;
        for evidence in candidates.into_iter().flatten() {
            let judged =
                self.with_evidence(receipt, evidence, None, AuditBasis::OtherBundle, timed);
            if judged.receipt.verdict != Verdict::Refused {
                return judged;
            }
            last = Some(judged);
        }
        if let Some(judged) = last {
            return judged;
        }
        let key = self.key.unwrap_or_default();
        let expectations =
            Expectations::dangerous_unattested(ReceiptKey::dangerous_unattested(key));
        let receipt = match (self.key, named) {
            // Without a key only the format is checked; later checks are not run.
            (None, Some(_)) => ReceiptReport {
                checks: log.into_rows(),
                ..ReceiptReport::refused_unchecked(
                    "NO_KEY",
                    "A receipt alone names no key, so no one can tell who signed it.",
                    "Add its audit bundle, or the receipt key (64 hex digits) out of evidence that you verified.",
                    UnixMillis(0),
                )
            },
            _ => receipt::verify(receipt, &expectations, Some(stopwatch())).0,
        };
        let (basis, claimed) = match self.key {
            Some(_) => (AuditBasis::NamedKey, None),
            None => (
                AuditBasis::None,
                parsed.and_then(|parsed| parsed.unverified_claims()),
            ),
        };
        Reports {
            attestation: None,
            receipt,
            claimed,
            basis,
        }
    }

    fn with_evidence(
        &self,
        receipt: &[u8],
        evidence: &Evidence,
        content: Option<&BundleContent>,
        basis: AuditBasis,
        timed: bool,
    ) -> Reports {
        let policy = match self.policy() {
            Ok(policy) => policy,
            Err(refusal) => {
                let Refusal {
                    code,
                    message,
                    remedy,
                } = refusal;
                return Reports {
                    attestation: None,
                    claimed: None,
                    receipt: ReceiptReport::refused_unchecked(code, message, remedy, UnixMillis(0)),
                    basis: AuditBasis::None,
                };
            }
        };
        let bundle = evidence.bundle(receipt, content);
        let mut memory = self.memory.borrow_mut();
        let mut verified = evidence.verified_signature.borrow_mut();
        let pending = match verified.as_ref() {
            // Verified by this module, in an earlier appraisal.
            Some(signature) => {
                memory.vouch(signature);
                None
            }
            None => {
                let at = unverified_time(receipt);
                pending_signatures(&evidence.document, policy.anchor(), at, &memory).pop()
            }
        };
        let BundleReport {
            attestation,
            receipt,
        } = bundle.verify(policy, || timed.then(stopwatch), &mut memory);
        if attestation.verdict != Verdict::Refused && verified.is_none() {
            *verified = pending;
        }
        Reports {
            attestation: Some(attestation),
            receipt,
            claimed: None,
            basis,
        }
    }
}
