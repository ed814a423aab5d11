//! The attested channel beside TLS 1.3 (rustls with aws-lc-rs), Noise (snow) and the published transport, in one process and in
//! turns: establishment, and round trips of framed messages, over a pipe in memory.
//!
//! `cargo run --release --manifest-path benchmarks/transport/Cargo.toml`; prints minimum and median of each in µs.

mod ours;
mod peers;

use std::time::{Duration, Instant};

use peers::{Cmt, Noise, Raw, Tls};

/// Sizes of messages, bytes.
const SIZES: [usize; 5] = [64, 1_536, 4_096, 384 * 1_024, 1_024 * 1_024];
const PIPE: usize = 1 << 20;
const ROUNDS: usize = 15;

/// An established pair that echoes.
trait Echo {
    async fn round_trip(&mut self, payload: &[u8]);
}

/// Makes established pairs.
trait Transport {
    type Pair: Echo;
    const NAME: &'static str;
    async fn establish(&mut self) -> Self::Pair;
}

#[derive(Default)]
struct Samples(Vec<Duration>);

impl Samples {
    fn show(&mut self) -> String {
        self.0.sort_unstable();
        let micros = |at: usize| self.0.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e6);
        format!("{:10.1} {:10.1}", micros(0), micros(self.0.len() / 2))
    }
}

/// One contender's figures so far.
struct Lane<T: Transport> {
    transport: T,
    pair: T::Pair,
    establishment: Samples,
    trips: [Samples; SIZES.len()],
}

impl<T: Transport> Lane<T> {
    async fn new(mut transport: T) -> Self {
        let pair = transport.establish().await;
        Self {
            transport,
            pair,
            establishment: Samples::default(),
            trips: Default::default(),
        }
    }

    async fn turn(&mut self) {
        for _ in 0..20 {
            let start = Instant::now();
            let pair = self.transport.establish().await;
            self.establishment.0.push(start.elapsed());
            drop(pair);
        }
        for (size, samples) in SIZES.into_iter().zip(&mut self.trips) {
            let payload = vec![0xab; size];
            let count = (2_000_000 / (size + 4_000)).clamp(4, 200);
            self.pair.round_trip(&payload).await;
            for _ in 0..count {
                let start = Instant::now();
                self.pair.round_trip(&payload).await;
                samples.0.push(start.elapsed());
            }
        }
    }

    fn show(&mut self) {
        println!("{:34} establish {}", T::NAME, self.establishment.show());
        for (size, samples) in SIZES.into_iter().zip(&mut self.trips) {
            println!("{:34} {size:>9} {}", T::NAME, samples.show());
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut raw = Lane::new(Raw).await;
    let mut tls = Lane::new(Tls::new()).await;
    let mut noise = Lane::new(Noise).await;
    let mut cmt = Lane::new(Cmt::default()).await;
    let mut endorsed = Lane::new(ours::Ours::<true>::new()).await;
    let mut documented = Lane::new(ours::Ours::<false>::new()).await;
    for _ in 0..ROUNDS {
        raw.turn().await;
        tls.turn().await;
        noise.turn().await;
        cmt.turn().await;
        endorsed.turn().await;
        documented.turn().await;
    }
    println!(
        "{:34} {:>9} {:>10} {:>10}",
        "transport", "bytes", "min µs", "median µs"
    );
    raw.show();
    tls.show();
    noise.show();
    cmt.show();
    endorsed.show();
    documented.show();
}
