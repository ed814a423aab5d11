//! Proofs of rows and of their absence.

use sealed_index::{
    AbsenceProof, Disclosed, Index, Metadata, Precision, ProofError, RowProof, Statement,
};

use crate::common::{Store, put, settings};

fn index(rows: u32) -> Index {
    let mut store = Store::default();
    let index = store.create(settings(Precision::F32));
    let rows = (0..rows).map(|number| put(&number.to_string(), [number as f32, 1.0, 0.0]));
    store.change(&index, &rows.collect::<Vec<_>>())
}

#[test]
fn a_proof_is_of_one_row_and_one_version() {
    let index = index(100);
    let statement = index.statement();
    let proof = index.prove("7").row().unwrap();
    let vector = [7.0, 1.0, 0.0];
    let metadata: Metadata = serde_json::from_str(r#"{"year":2026}"#).unwrap();
    let disclosed = Disclosed {
        text: Some("text of 7"),
        vector: Some(&vector),
        metadata: Some(&metadata),
    };
    assert_eq!(proof.verify(&statement, "7", disclosed), Ok(()));
    assert_eq!(proof.verify(&statement, "7", Disclosed::default()), Ok(()));
    assert_eq!(
        proof.verify(&statement, "8", disclosed),
        Err(ProofError::Root)
    );
    let text = Disclosed {
        text: Some("text of 8"),
        ..disclosed
    };
    assert_eq!(proof.verify(&statement, "7", text), Err(ProofError::Text));
    let rounded = Disclosed {
        vector: Some(&[7.0, 1.0, -0.0]),
        ..disclosed
    };
    assert_eq!(
        proof.verify(&statement, "7", rounded),
        Err(ProofError::Vector)
    );
    let no_metadata = Metadata::default();
    let other = Disclosed {
        metadata: Some(&no_metadata),
        ..disclosed
    };
    assert_eq!(
        proof.verify(&statement, "7", other),
        Err(ProofError::Metadata)
    );
    let later = Statement {
        map: [1; 32],
        ..statement.clone()
    };
    assert_eq!(proof.verify(&later, "7", disclosed), Err(ProofError::Root));
    let altered = [
        RowProof {
            version: 2,
            ..proof.clone()
        },
        RowProof {
            computed: false,
            ..proof.clone()
        },
        RowProof {
            id_salt: [0; 32],
            ..proof.clone()
        },
        RowProof {
            vector: [0; 32],
            ..proof.clone()
        },
        RowProof {
            metadata: [0; 32],
            ..proof.clone()
        },
        RowProof {
            text: None,
            ..proof.clone()
        },
        RowProof {
            path: proof.path[1..].to_vec(),
            ..proof.clone()
        },
    ];
    for proof in altered {
        assert_eq!(
            proof.verify(&statement, "7", Disclosed::default()),
            Err(ProofError::Root)
        );
    }
    let long = RowProof {
        path: vec![[0; 32]; 257],
        ..proof
    };
    assert_eq!(
        long.verify(&statement, "7", disclosed),
        Err(ProofError::Malformed)
    );
}

#[test]
fn absence_cannot_be_shown_of_a_row() {
    let index = index(50);
    let statement = index.statement();
    let present = index.prove("7").row().unwrap();
    let forged = AbsenceProof {
        id_salt: present.id_salt,
        other_key: None,
        other_value: None,
        path: present.path.clone(),
    };
    assert_eq!(forged.verify(&statement, "7"), Err(ProofError::Root));
    let mut kinds = [0; 2];
    for id in (50..150).map(|id| id.to_string()) {
        let absent = index.prove(&id).absence().unwrap();
        assert_eq!(absent.verify(&statement, &id), Ok(()));
        kinds[usize::from(absent.other_key.is_some())] += 1;
        // The same proof says nothing about a row.
        for row in (0..50).map(|row| row.to_string()) {
            assert!(absent.verify(&statement, &row).is_err(), "{id} {row}");
        }
        let other = AbsenceProof {
            other_value: Some([0; 32]),
            ..absent
        };
        assert!(other.verify(&statement, &id).is_err());
    }
    assert!(kinds.iter().all(|count| *count > 0), "{kinds:?}");
    let empty = Store::default().create(settings(Precision::F32));
    assert_eq!(
        empty
            .prove("x")
            .absence()
            .unwrap()
            .verify(&empty.statement(), "x"),
        Ok(())
    );
}

#[test]
fn proofs_and_statements_are_json() {
    let index = index(20);
    let statement = index.statement();
    let json = serde_json::to_string(&statement).unwrap();
    assert_eq!(serde_json::from_str::<Statement>(&json).unwrap(), statement);
    let proof = index.prove("3").row().unwrap();
    let json = serde_json::to_string(&proof).unwrap();
    assert_eq!(serde_json::from_str::<RowProof>(&json).unwrap(), proof);
    let absent = index.prove("x").absence().unwrap();
    let json = serde_json::to_string(&absent).unwrap();
    assert_eq!(serde_json::from_str::<AbsenceProof>(&json).unwrap(), absent);
    let wrong = json.replace("\"path\":\"", "\"path\":\"A");
    assert!(serde_json::from_str::<AbsenceProof>(&wrong).is_err());
}

#[test]
fn roots_reveal_nothing_about_equal_rows_of_two_indexes() {
    let rows = || vec![put("a", [1.0, 0.0, 0.0])];
    let (first, writes) =
        Index::create(crate::common::key(1), settings(Precision::F32), &[0; 32]).unwrap();
    assert!(writes.objects.is_empty());
    let (second, _) =
        Index::create(crate::common::key(2), settings(Precision::F32), &[0; 32]).unwrap();
    let first = first.stage(&rows(), &[1; 32]).unwrap().index;
    let second = second.stage(&rows(), &[1; 32]).unwrap().index;
    assert_ne!(first.statement().map, second.statement().map);
}
