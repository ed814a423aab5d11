//! The endpoint over services that answer, fail and misbehave.

use std::sync::Mutex;

use http::Request;
use http_body_util::BodyExt as _;
use serde_json::json;
use tower::ServiceExt as _;

use super::*;

/// Gives these answers in turn; `None` is a failure. Counts its calls.
struct Scripted(Mutex<Vec<Option<(u16, Value)>>>, Mutex<usize>);

impl Scripted {
    fn new(answers: Vec<Option<(u16, Value)>>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(answers), Mutex::new(0)))
    }

    fn calls(&self) -> usize {
        *self.1.lock().unwrap()
    }
}

impl KeyService for Scripted {
    fn decrypt<'a>(&'a self, _: &'a Decrypt) -> Attempt<'a> {
        *self.1.lock().unwrap() += 1;
        let next = self.0.lock().unwrap().remove(0);
        Box::pin(async move {
            let (status, body) = next.ok_or(Unavailable("refused".to_owned()))?;
            Ok(KmsAnswer {
                status: StatusCode::from_u16(status).unwrap(),
                body,
            })
        })
    }
}

fn request() -> Value {
    json!({
        "KeyId": "arn", "CiphertextBlob": "AAAA", "EncryptionAlgorithm": "SYMMETRIC_DEFAULT", "EncryptionContext": {},
        "Recipient": { "AttestationDocument": "AAAA", "KeyEncryptionAlgorithm": "RSAES_OAEP_SHA_256" },
    })
}

async fn ask_with(service: Option<Arc<dyn KeyService>>, body: String) -> (u16, Value) {
    let request = Request::post("/v1/kms/decrypt")
        .body(axum::body::Body::from(body))
        .unwrap();
    let answer = routes(service).oneshot(request).await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_passed_on_unchanged() {
    for (status, body) in [
        (
            200,
            json!({ "KeyId": "arn", "CiphertextForRecipient": "AAAA" }),
        ),
        (
            400,
            json!({ "__type": "AccessDeniedException", "message": "no" }),
        ),
    ] {
        let service = Scripted::new(vec![Some((status, body.clone()))]);
        assert_eq!(
            ask_with(Some(service.clone()), request().to_string()).await,
            (status, body)
        );
        assert_eq!(service.calls(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_of_kms_is_tried_three_times_at_most() {
    let good = json!({ "KeyId": "arn", "CiphertextForRecipient": "AAAA" });
    let throttled = Some((400, json!({ "__type": "ThrottlingException" })));
    let broken = Some((500, json!({ "__type": "KMSInternalException" })));
    let service = Scripted::new(vec![throttled, None, Some((200, good.clone()))]);
    assert_eq!(
        ask_with(Some(service.clone()), request().to_string()).await,
        (200, good)
    );
    assert_eq!(service.calls(), 3);
    let service = Scripted::new(vec![broken.clone(), broken.clone(), broken]);
    assert_eq!(
        ask_with(Some(service.clone()), request().to_string())
            .await
            .0,
        500
    );
    let service = Scripted::new(vec![None, None, None]);
    let (status, body) = ask_with(Some(service), request().to_string()).await;
    assert_eq!((status, &body["__type"]), (502, &json!("KMS_UNREACHABLE")));
}

/// Answers after this time.
struct Slow(Duration);

impl KeyService for Slow {
    fn decrypt<'a>(&'a self, _: &'a Decrypt) -> Attempt<'a> {
        Box::pin(async move {
            tokio::time::sleep(self.0).await;
            Ok(KmsAnswer {
                status: StatusCode::OK,
                body: json!({ "KeyId": "arn" }),
            })
        })
    }
}

#[tokio::test(start_paused = true)]
async fn enclaves_that_start_together_wait_for_their_turn() {
    let second = Duration::from_secs(1);
    for (time, last) in [(TURN_TIMEOUT - second, 200), (TURN_TIMEOUT + second, 503)] {
        let router = routes(Some(Arc::new(Slow(time))));
        let ask = || async {
            let request = Request::post("/v1/kms/decrypt")
                .body(axum::body::Body::from(request().to_string()))
                .unwrap();
            let answer = router.clone().oneshot(request).await.unwrap();
            answer.status().as_u16()
        };
        let answers = tokio::join!(ask(), ask(), ask());
        assert_eq!(answers, (200, 200, last));
    }
}

/// Its answer would be the data key.
#[tokio::test(start_paused = true)]
async fn a_request_without_a_recipient_is_never_sent() {
    let without = |name: &str| {
        let mut request = request();
        request.as_object_mut().unwrap().remove(name);
        request.to_string()
    };
    let mut extra_member = request();
    extra_member["DryRun"] = true.into();
    let mut not_base64 = request();
    not_base64["CiphertextBlob"] = "?".into();
    let mut no_document = request();
    no_document["Recipient"]["AttestationDocument"] = "A".into();
    let mut null_recipient = request();
    null_recipient["Recipient"] = Value::Null;
    for body in [
        without("Recipient"),
        without("KeyId"),
        extra_member.to_string(),
        null_recipient.to_string(),
        not_base64.to_string(),
        no_document.to_string(),
        String::new(),
    ] {
        let service = Scripted::new(Vec::new());
        let (status, answer) = ask_with(Some(service.clone()), body).await;
        assert_eq!(
            (status, &answer["__type"]),
            (400, &json!("ValidationException"))
        );
        assert_eq!(service.calls(), 0);
    }
    let (status, _) = ask_with(Some(Scripted::new(Vec::new())), " ".repeat(MAX_REQUEST + 1)).await;
    assert_eq!(status, 413);
}

#[tokio::test(start_paused = true)]
async fn a_plaintext_is_not_passed_on() {
    let service = Scripted::new(vec![Some((
        200,
        json!({ "KeyId": "arn", "Plaintext": "c2VjcmV0" }),
    ))]);
    let (status, body) = ask_with(Some(service), request().to_string()).await;
    assert_eq!(
        (status, &body["__type"]),
        (502, &json!("KMS_ANSWERED_PLAINTEXT"))
    );
    assert!(!body.to_string().contains("c2VjcmV0"));
}

#[tokio::test(start_paused = true)]
async fn without_a_kms_the_refusal_is_not_configured() {
    let (status, body) = ask_with(None, request().to_string()).await;
    assert_eq!(
        (status, &body["__type"]),
        (503, &json!("KMS_NOT_CONFIGURED"))
    );
}

#[test]
fn a_simulation_has_a_loopback_address() {
    for bad in [
        "",
        "https://127.0.0.1:1",
        "http://192.0.2.1:1",
        "http://kms.example/",
        "http://localhost.example:1",
    ] {
        assert!(Endpoint::simulated(bad).is_err(), "{bad}");
    }
    assert!(Endpoint::simulated("http://127.0.0.1:1").is_ok());
    assert!(Endpoint::simulated("http://[::1]:1").is_ok());
}
