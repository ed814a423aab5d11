//! One encoding of each format, and nothing else.

use crate::tree::{Log, ORIGIN, log_key, witness_key};
use proptest::prelude::*;
use witness::checkpoint::Checkpoint;
use witness::key::{KeyError, Signer, Use, Verifier};
use witness::note::{MAX_NOTE, MAX_SIGNATURES, Note, NoteError, parse_signatures};
use witness::proof::TlogProof;
use witness::record::{self, Kind};
use witness::request::AddCheckpoint;

fn note(text: &str) -> Note {
    let mut note = Note::new(text).unwrap();
    note.sign(log_key().sign(text, 0));
    note.sign(witness_key(1).sign(text, 1_795_183_380));
    note
}

#[test]
fn notes_of_another_form_are_refused() {
    let good = note("a\n\nb\n").to_string();
    assert_eq!(Note::parse(good.as_bytes()).unwrap().text(), "a\n\nb\n");
    let line = good.lines().last().unwrap();
    let second = format!("a\n\n{line}\n");
    assert!(Note::parse(second.as_bytes()).is_ok());
    for bad in [
        String::new(),
        "\n".to_owned(),
        "a\n".to_owned(),
        "a\n\n".to_owned(),
        format!("a\n{line}\n"),
        format!("a\n\n{line}"),
        format!("a\n\n{line}\n "),
        format!("a\r\n\r\n{line}\r\n"),
        format!("a\tb\n\n{line}\n"),
        format!("a\u{0}\n\n{line}\n"),
        format!("a\n\n{line}\n{}\n", line.replace('\u{2014}', "-")),
        format!("a\n\n{}\n", line.replace('\u{2014}', "\u{2014} ")),
        format!("a\n\n{}\n", line.replace("w1.example", "w1+example")),
        format!("a\n\n{}\n", line.replace("w1.example", "w1\u{a0}example")),
        format!("a\n\n{}\n", line.replace("w1.example ", "")),
        "a\n\n\u{2014} name \n".to_owned(),
        "a\n\n\u{2014} name AAAAAA==\n".to_owned(),
        "a\n\n\u{2014} name AAAAAAA\n".to_owned(),
        "a\n\n\u{2014} name AAAAAAF=\n".to_owned(),
    ] {
        assert_eq!(
            Note::parse(bad.as_bytes()),
            Err(NoteError::Malformed),
            "{bad:?}"
        );
    }
    assert_eq!(Note::parse(b"\xff\n\n"), Err(NoteError::Malformed));
    let many = |count| format!("a\n\n{}", format!("{line}\n").repeat(count));
    assert!(Note::parse(many(MAX_SIGNATURES).as_bytes()).is_ok());
    assert_eq!(
        Note::parse(many(MAX_SIGNATURES + 1).as_bytes()),
        Err(NoteError::TooLarge)
    );
    let long = format!("{}\n\n{line}\n", "a".repeat(MAX_NOTE));
    assert_eq!(Note::parse(long.as_bytes()), Err(NoteError::TooLarge));
    assert!(Note::new("").is_err() && Note::new("a").is_err());
}

#[test]
fn checkpoints_of_another_form_are_refused() {
    let root = "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=";
    let good = format!("example.com/behind-the-sofa\n20852163\n{root}\n");
    let read = Checkpoint::parse(&good).unwrap();
    assert_eq!(read.tree.size, 20_852_163);
    assert_eq!(read.to_string(), good);
    let extended = format!("a\n0\n{root}\nextension\nother\n");
    let read = Checkpoint::parse(&extended).unwrap();
    assert_eq!(read.extensions, "extension\nother\n");
    assert!(!read.is_possible());
    for bad in [
        format!("\n1\n{root}\n"),
        format!("a\n01\n{root}\n"),
        format!("a\n+1\n{root}\n"),
        format!("a\n-1\n{root}\n"),
        format!("a\n\n{root}\n"),
        format!("a\n1 \n{root}\n"),
        format!("a\n18446744073709551616\n{root}\n"),
        format!("a\n1\n{root}"),
        format!("a\n1\n{}\n", root.replace('=', "")),
        format!("a\n1\n{}\n", &root[4..]),
        format!("a\n1\n{}\n", root.replace("2I=", "2J=")),
        format!("a\n1\n{root}\n\n"),
        format!("a\n1\n{root}\nb\n\nc\n"),
        format!("a\n1\n{root}\nb"),
    ] {
        assert!(Checkpoint::parse(&bad).is_err(), "{bad:?}");
    }
}

#[test]
fn keys_are_read_in_their_only_form() {
    // The example of the specification.
    let key =
        Verifier::parse("example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k");
    let signed = "This is an example message.\n\n\u{2014} example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n";
    let note = Note::parse(signed.as_bytes()).unwrap();
    assert_eq!(key.unwrap().verify(&note), Ok(0));

    for signer in [log_key(), witness_key(2)] {
        let public = signer.verifier().to_string();
        assert_eq!(&Verifier::parse(&public).unwrap(), signer.verifier());
        let private = Signer::parse(&signer.to_private()).unwrap();
        assert_eq!(private.verifier(), signer.verifier());
        assert!(!format!("{signer:?}").contains("PRIVATE"));
        assert!(Signer::parse(&public).is_err());
        let (name, rest) = public.split_once('+').unwrap();
        for bad in [
            rest.to_owned(),
            format!("{name}x+{rest}"),
            format!("{name}+{}", rest.to_uppercase()),
            format!("{name}+0{rest}"),
            format!("{public}="),
            public[..public.len() - 4].to_owned(),
        ] {
            assert_eq!(Verifier::parse(&bad), Err(KeyError::Malformed), "{bad}");
        }
    }
    // A key of ML-DSA-44 has type 6.
    assert_eq!(
        Verifier::parse("a+00000000+BgAA"),
        Err(KeyError::Unsupported(6))
    );
    // The neutral element signs every text.
    let weak = "a+00000000+AQEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    assert_eq!(Verifier::parse(weak), Err(KeyError::Malformed));
    assert!(Signer::from_seed("a b", Use::Log, &[0; 32]).is_err());
}

#[test]
fn a_key_has_one_use() {
    let text = "a\n";
    let as_log = Signer::from_seed("w1.example", Use::Log, &[11; 32]).unwrap();
    let note = note(text);
    assert_eq!(as_log.verifier().verify(&note), Err(KeyError::Unsigned));
    assert_eq!(witness_key(1).verifier().verify(&note), Ok(1_795_183_380));
    let other = witness_key(2);
    assert_eq!(other.verifier().verify(&note), Err(KeyError::Unsigned));
}

#[test]
fn a_changed_note_is_refused_and_one_wrong_signature_is_enough() {
    let signed = note("a\n").to_string();
    let changed = Note::parse(signed.replacen('a', "b", 1).as_bytes()).unwrap();
    for key in [log_key(), witness_key(1)] {
        assert_eq!(key.verifier().verify(&changed), Err(KeyError::Signature));
    }
    let wrong = changed.signatures()[0].to_string();
    let both = Note::parse(format!("{signed}{wrong}").as_bytes()).unwrap();
    assert_eq!(log_key().verifier().verify(&both), Ok(0));
    let other = witness_key(1).sign("b\n", 5).to_string();
    let both = Note::parse(format!("{signed}{other}").as_bytes()).unwrap();
    let key = witness_key(1);
    assert_eq!(key.verifier().verify(&both), Err(KeyError::Signature));
}

#[test]
fn requests_and_proofs_of_another_form_are_refused() {
    let log = Log::of(20, "");
    let good = log.request(12, 20).to_text();
    assert_eq!(
        AddCheckpoint::parse(good.as_bytes()).unwrap(),
        log.request(12, 20)
    );
    let hash = good.lines().nth(1).unwrap().to_owned();
    for bad in [
        good.replacen("old ", "old  ", 1),
        good.replacen("old 12", "old 012", 1),
        good.replacen("old 12", "new 12", 1),
        good.replacen('\n', "\r\n", 1),
        good.replacen(&hash, &hash[1..], 1),
        good.replacen("\n\n", "\n", 1),
        format!(
            "old 12\n{}\n{}",
            format!("{hash}\n").repeat(64),
            log.checkpoint(20)
        ),
        format!("old 12\n{hash}\n"),
    ] {
        assert!(AddCheckpoint::parse(bad.as_bytes()).is_err(), "{bad}");
    }
    let proof = TlogProof {
        index: 3,
        path: merkle::prove::inclusion(&log, 3, 20).unwrap(),
        note: log.checkpoint(20),
    };
    let text = proof.to_string();
    assert_eq!(TlogProof::parse(text.as_bytes()).unwrap(), proof);
    let extra = text.replacen("index", "extra AAAA\nindex", 1);
    assert_eq!(TlogProof::parse(extra.as_bytes()).unwrap(), proof);
    for bad in [
        text.replacen("@v1", "@v2", 1),
        text.replacen("index 3", "index 03", 1),
        text.replacen("index", "extra AAAA\nextra AAAA\nindex", 1),
        text.replacen("\n\n", "\n", 1),
        text.replacen(ORIGIN, "", 1).replacen("\u{2014}", "", 1),
    ] {
        assert!(TlogProof::parse(bad.as_bytes()).is_err(), "{bad}");
    }
}

#[test]
fn records_name_their_kind() {
    for kind in Kind::ALL {
        let record = record::write(kind, b"x\ny");
        assert_eq!(record::read(&record), Some((kind, &b"x\ny"[..])));
    }
    for bad in [
        "",
        "keys\n",
        "clearseal-record/1 other\n",
        "clearseal-record/2 keys\n",
        "clearseal-record/1 keys",
    ] {
        assert_eq!(record::read(bad.as_bytes()), None);
    }
}

proptest! {
    #[test]
    fn readers_take_any_bytes_and_write_back_what_they_read(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in "([ -~]{0,9}\n){0,4}\n?(\u{2014} [a-z+ ]{0,3} [A-Za-z0-9+/]{0,12}={0,2}\n){0,3}") {
        for bytes in [&bytes[..], text.as_bytes()] {
            if let Ok(note) = Note::parse(bytes) {
                prop_assert_eq!(note.to_string().into_bytes(), bytes);
            }
            if let Ok(signatures) = parse_signatures(bytes) {
                let lines: String = signatures.iter().map(ToString::to_string).collect();
                prop_assert_eq!(lines.as_bytes(), bytes);
            }
            if let Ok(text) = std::str::from_utf8(bytes) {
                if let Ok(read) = Checkpoint::parse(text) {
                    prop_assert_eq!(read.to_string(), text);
                }
                if let Ok(read) = Verifier::parse(text) {
                    prop_assert_eq!(read.to_string(), text);
                }
            }
            let _ = AddCheckpoint::parse(bytes);
            let _ = TlogProof::parse(bytes);
            let _ = record::read(bytes);
            let _ = witness::policy::Policy::parse(bytes);
        }
    }

    #[test]
    fn every_note_is_read_back(text in "(\\PC{0,20}\n){1,5}", time in 1..u64::MAX / 2) {
        let mut written = Note::new(&text).unwrap();
        written.sign(log_key().sign(&text, 0));
        written.sign(witness_key(1).sign(&text, time));
        let read = Note::parse(written.to_string().as_bytes()).unwrap();
        prop_assert_eq!(&read, &written);
        prop_assert_eq!(witness_key(1).verifier().verify(&read), Ok(time));
    }

    #[test]
    fn no_changed_bit_of_a_checkpoint_verifies(bit in 0..1000_usize) {
        let good = Log::of(9, "").checkpoint(9).to_string().into_bytes();
        let mut bad = good.clone();
        let at = bit / 8 % bad.len();
        bad[at] ^= 1 << (bit % 8);
        if let Ok(note) = Note::parse(&bad) {
            prop_assert!(log_key().verifier().verify(&note).is_err());
        }
    }
}
