//! Planned stops at any moment: afterwards the file has the receipt of every answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use host_proxy::log::Store;
use merkle::json::hex;
use tokio::sync::Notify;

use crate::fake::{FakeLog, Shared, enclave};
use crate::life::Process;
use crate::support::{FakeEnclave, Running};
use crate::{head_of, proxy, shared, until};

/// Checks that the file has every receipt that the enclave issued, and that the enclave knows it.
fn assert_complete(enclave: &FakeEnclave, logs: &Shared) {
    let file = enclave.path().with_file_name("receipts.redb");
    Store::check(&file).unwrap();
    let store = Store::open(&file).unwrap();
    for log in logs.lock().unwrap().iter() {
        assert_eq!(store.size(&log.id()), log.leaves.len() as u64);
        for leaf in &log.leaves {
            let found = store.inclusion(&log.id(), leaf).unwrap();
            assert!(found.is_some(), "{}", hex(leaf));
        }
        assert_eq!(log.acknowledged, log.leaves.len());
    }
}

async fn pulled(proxy: &Running, logs: &Shared) {
    let (name, size) = {
        let log = &logs.lock().unwrap()[0];
        (log.name(), log.leaves.len() as u64)
    };
    let path = format!("/v1/log/{name}/head");
    until(proxy, &path, |answer| {
        head_of(&answer).filter(|head| head.size == size)
    })
    .await;
}

/// Holds requests for one path while it is closed.
#[derive(Clone, Default)]
struct Gate {
    path: &'static str,
    /// Holds the answer of the enclave; otherwise holds the request.
    after: bool,
    closed: Arc<AtomicBool>,
    entered: Arc<Notify>,
    release: Arc<Notify>,
}

impl Gate {
    fn before(self, router: Router) -> Router {
        router.layer(from_fn_with_state(self, hold))
    }

    fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    fn open(&self) {
        self.closed.store(false, Ordering::SeqCst);
        self.release.notify_one();
    }

    async fn wait(&self) {
        self.entered.notify_one();
        self.release.notified().await;
    }
}

async fn hold(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let held = request.uri().path() == gate.path && gate.closed.load(Ordering::SeqCst);
    if held && !gate.after {
        gate.wait().await;
    }
    let answer = next.run(request).await;
    if held && gate.after {
        gate.wait().await;
    }
    answer
}

#[tokio::test]
async fn a_stop_right_after_an_answer_leaves_its_receipt_in_the_log() {
    let logs = shared(vec![FakeLog::new(1, 250), FakeLog::new(2, 3)]);
    let enclave = FakeEnclave::start(enclave(&logs));
    let mut proxy = proxy(&enclave).await;
    pulled(&proxy, &logs).await;
    assert_eq!(proxy.post("/v1/gateway", "x").await.text(), "sealed");
    proxy.stop();
    proxy.task.await.unwrap();
    assert_complete(&enclave, &logs);
}

#[tokio::test]
async fn a_stop_during_an_answer_waits_for_it_and_for_its_receipt() {
    for after in [false, true] {
        let logs = shared(vec![FakeLog::new(1, 250)]);
        let gate = Gate {
            path: "/v1/gateway",
            after,
            ..Gate::default()
        };
        let enclave = FakeEnclave::start(gate.clone().before(enclave(&logs)));
        let mut proxy = proxy(&enclave).await;
        pulled(&proxy, &logs).await;
        gate.close();
        let address = proxy.address;
        let client = tokio::task::spawn_blocking(move || Process::ask(address));
        gate.entered.notified().await;
        proxy.stop();
        gate.open();
        assert!(client.await.unwrap());
        proxy.task.await.unwrap();
        assert_complete(&enclave, &logs);
    }
}

#[tokio::test]
async fn a_stop_during_an_earlier_pull_pulls_again() {
    for path in ["/v1/log", "/v1/log/leaves"] {
        let logs = shared(vec![FakeLog::new(1, 250)]);
        let gate = Gate {
            path,
            after: true,
            ..Gate::default()
        };
        let enclave = FakeEnclave::start(gate.clone().before(enclave(&logs)));
        let mut proxy = proxy(&enclave).await;
        pulled(&proxy, &logs).await;
        gate.close();
        assert_eq!(proxy.post("/v1/gateway", "x").await.text(), "sealed");
        gate.entered.notified().await;
        // The pull in progress may already have its answer, without this receipt.
        assert_eq!(proxy.post("/v1/gateway", "x").await.text(), "sealed");
        proxy.stop();
        gate.open();
        proxy.task.await.unwrap();
        assert_complete(&enclave, &logs);
    }
}

#[tokio::test]
async fn a_proxy_without_its_enclave_stops_nevertheless() {
    let logs = shared(vec![FakeLog::new(1, 250)]);
    let mut enclave = FakeEnclave::start(enclave(&logs));
    let mut proxy = proxy(&enclave).await;
    pulled(&proxy, &logs).await;
    enclave.kill().await;
    proxy.stop();
    proxy.task.await.unwrap();
}

#[tokio::test]
async fn a_refused_history_at_the_end_does_not_prevent_a_stop() {
    let logs = shared(vec![FakeLog::new(1, 250)]);
    let enclave = FakeEnclave::start(enclave(&logs));
    let mut proxy = proxy(&enclave).await;
    pulled(&proxy, &logs).await;
    logs.lock().unwrap()[0].leaves[3] = [7; 32];
    proxy.stop();
    proxy.task.await.unwrap();
}

/// Two clients send requests while the real program is stopped, each time at another moment of its pulls and commits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn planned_stops_at_any_moment_lose_nothing() {
    let logs = shared(vec![FakeLog::new(1, 0)]);
    let enclave = FakeEnclave::start(enclave(&logs));
    let (mut answered, mut chance) = (0, 11_u64);
    for life in 0..12 {
        let process = Process::start(&enclave);
        let address = process.address;
        let clients =
            [0, 1].map(|_| std::thread::spawn(move || Process::send_until_refused(address)));
        chance = chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        tokio::time::sleep(Duration::from_micros(50_000 + (chance >> 33) % 200_000)).await;
        process.begin_stop();
        let orderly = tokio::task::spawn_blocking(|| process.wait());
        assert!(orderly.await.unwrap());
        answered += clients
            .map(|client| client.join().unwrap())
            .iter()
            .sum::<usize>();
        assert!(logs.lock().unwrap()[0].leaves.len() >= answered, "{life}");
        assert_complete(&enclave, &logs);
    }
    assert!(answered > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_with_a_full_disk_is_reported_and_the_next_start_stores_the_rest() {
    let logs = shared(vec![FakeLog::new(1, 10)]);
    let name = logs.lock().unwrap()[0].name();
    let enclave = FakeEnclave::start(enclave(&logs));
    for room_in_time in [true, false] {
        let process = Process::start_without_xfsz(&enclave);
        let size = logs.lock().unwrap()[0].leaves.len() as u64;
        while process.size(&name).await != Some(size) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        process.limit_files("4096");
        logs.lock().unwrap()[0].grow(5000);
        while !process.log.lock().unwrap().contains("LOG_UNAVAILABLE") {
            process.traffic();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        process.begin_stop();
        if room_in_time {
            while !process.log.lock().unwrap().contains("drained") {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            process.limit_files("unlimited");
        }
        let log = Arc::clone(&process.log);
        assert!(
            tokio::task::spawn_blocking(|| process.wait())
                .await
                .unwrap()
        );
        let unfinished = log.lock().unwrap().contains("LOG_UNFINISHED");
        assert_eq!(unfinished, !room_in_time);
        if room_in_time {
            assert_complete(&enclave, &logs);
        }
    }
    // The enclave still has what the full disk could not take.
    let process = Process::start(&enclave);
    process.begin_stop();
    assert!(
        tokio::task::spawn_blocking(|| process.wait())
            .await
            .unwrap()
    );
    assert_complete(&enclave, &logs);
}
